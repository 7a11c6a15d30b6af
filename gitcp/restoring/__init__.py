"""Restore: ref → commit → plan → apply, with undo, redo, revert and resume."""
