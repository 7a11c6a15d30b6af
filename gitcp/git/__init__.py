"""The repository as gitcp uses it: objects, refs, the index, and the few `git` commands.

Nothing above this package knows pygit2 or the layout of a git directory. Reading and writing single objects and refs is
done here in plain Python, because loading libgit2 costs more than a whole save; whatever is rarer goes through it.
"""
