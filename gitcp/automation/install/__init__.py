"""Set agents up: install the files in the top-level `hooks/` where each agent
looks for them, and remove them.

A plan, then an apply: `gitcp.automation.install.plan` decides the changes per file, `plan.apply`
makes them. In a user's file, only gitcp's own entries are added and removed; all other bytes stay.
"""
