"""The repository as gitcp uses it: objects, refs, the index, and a few `git` commands.

No package above this one knows the layout of a git directory. Single objects and refs are read and
written here in plain Python, because starting `git` costs as much as a whole save; rarer tasks are
left to git.
"""
