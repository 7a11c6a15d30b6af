"""What the modules for agent frameworks share: a session whose streams are read, changed and saved
in one go.
"""
