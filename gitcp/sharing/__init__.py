"""Push, fetch, export and import, and the verification of what comes in."""
