"""Sets agents up: what lies in the top-level `hooks/` goes where each agent looks for it, and comes
out again.

Plan, then apply: `gitcp.automation.install.plan` decides what would change in which file,
`plan.apply` does it. Of a file that is the user's, only gitcp's own entries are added and
removed; every other byte stays.
"""
