"""Save checkpoints: capture → snapshot → commit → ref, and choose the session and the
conversation.
"""
