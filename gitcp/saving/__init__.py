"""Save: capture → snapshot → commit → ref, and the decision which session and whose
conversation.
"""
