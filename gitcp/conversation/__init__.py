"""Conversations as bytes: streams cut into segments and joined again. Adapters interpret them."""
