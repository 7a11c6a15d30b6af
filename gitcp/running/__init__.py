"""Transactions around a command, and the compensations for what they did elsewhere."""
