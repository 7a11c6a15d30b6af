"""The comment on a pull or merge request, over the forge's HTTP API."""
