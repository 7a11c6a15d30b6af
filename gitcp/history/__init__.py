"""Read checkpoints: log, show, diff, status, sessions, find, why. No checkpoint or file is
changed.
"""
