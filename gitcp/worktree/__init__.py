"""Files ⇄ tree: which files there are, what changed, and the only code that writes them."""
