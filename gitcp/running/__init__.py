"""Run commands in transactions, and run compensations for their effects."""
