"""What becomes of checkpoints after they are saved: fork, rename, delete, prune, purge, the trash,
check, stats.
"""
