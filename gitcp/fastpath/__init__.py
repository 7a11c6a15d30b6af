"""What `gitcp save` and hooks answer before anything else is loaded: "nothing changed".

Imports nothing of gitcp but the policy of triggers. What it goes by is written by
gitcp.saving.unchanged.
"""
