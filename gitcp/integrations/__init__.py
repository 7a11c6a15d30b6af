"""Shared parts of the framework modules: sessions whose streams are read, changed and saved at
once.
"""
