"""The story of a change for reviewers: commits and their checkpoints, pages, comments, publish."""
