"""Conversations as bytes: streams cut into segments and joined again. What they mean is the
adapters' business.
"""
