"""Decide whether an agent's event is a reason for a checkpoint. Pure, without imports from other
packages: a hook with nothing to do ends here, before anything else is loaded.
"""
