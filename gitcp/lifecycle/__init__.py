"""Manage saved checkpoints: fork, rename, delete, prune, purge, check, stats, housekeeping."""
