"""Find secrets in bytes: tokens by their issuers' prefixes, keys and passwords by their context.

`scan` is pure. Nothing is looked up or sent, and no rule relies on randomness alone.
"""
