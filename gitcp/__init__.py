"""gitcp: save points for coding agents. Files and conversation, together, as one git commit.

Importing this package imports nothing heavy: no pygit2, no click, no rich.
"""

__version__ = "0.1.0"
