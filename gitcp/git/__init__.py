"""The repository as gitcp uses it: objects, refs, the index, and the few `git` commands.

Nothing above this package knows the layout of a git directory. Reading and writing single objects
and refs is done here in plain Python, because starting `git` costs as much as a whole save;
whatever is rarer is asked of git.
"""
