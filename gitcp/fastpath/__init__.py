"""Answer `gitcp save` and hooks with "nothing changed" before anything else is loaded.

Imports nothing of gitcp but what lies below: the trigger policy, and how a repository, a changed
file and a cache are recognized. gitcp.saving.unchanged and gitcp.worktree.state write the files
that it reads.
"""
