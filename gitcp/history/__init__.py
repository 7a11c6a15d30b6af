"""Look: log, show, diff, status, sessions, find, why. Nothing here changes a checkpoint or a
file.
"""
