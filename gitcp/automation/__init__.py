"""Saves that nobody types: agents' hooks, what installs them, and `watch`."""
