"""Finds secrets in bytes: tokens by their issuers' prefixes, keys and passwords by what stands
around them.

Pure: bytes in, places out. Nothing is looked up, nothing is sent anywhere, and no rule goes by
randomness alone.
"""
