"""Automatic saves: agents' hooks, their installation, and `watch`."""
