"""The command line: parses, calls one function of the packages below, and shows what came
back. Sole user of click and rich.

Each command is a module of its own, imported when it runs. Nothing below this package prints, asks
or exits.
"""
