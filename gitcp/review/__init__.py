"""Review of a change: commits linked to checkpoints, pages, pull request comments, publish."""
