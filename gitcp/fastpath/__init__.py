"""Answer `gitcp save` and hooks with "nothing changed" before anything else is loaded.

Imports nothing of gitcp but the trigger policy. gitcp.saving.unchanged and gitcp.worktree.state
write the files that it reads.
"""
