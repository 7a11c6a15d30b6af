"""`gitcp watch`: wait for changes, save them, and tell other processes what changed."""
