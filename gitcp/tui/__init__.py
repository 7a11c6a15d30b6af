"""The terminal interface: sessions, their timeline, a preview, and acts that run commands.

It decides nothing: it reads with the functions that `log`, `show`, `diff` and `sessions` use, and
an act is a command line that `gitcp.cli` runs. The only user of textual.
"""
