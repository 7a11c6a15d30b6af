"""What an agent's event means, and whether it is a reason for a checkpoint. Pure, and imports
nothing: a hook that has nothing to do ends here, before anything else is loaded.
"""
