"""`gitcp hook`: an agent's event, from standard input to the save, within a limit of time.

What the agents call their events, and which of them calls for a save, is `gitcp.policy`; what
nothing has to be imported for is `gitcp.fastpath.hook_memo`.
"""
