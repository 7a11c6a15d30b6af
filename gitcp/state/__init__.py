"""gitcp's own state beside checkpoints, in `<git dir>/gitcp` and in refs: the operation log,
journals, the trash, notes, settings.
"""
