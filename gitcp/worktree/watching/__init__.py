"""What watches a working tree: `gitcp watch` itself, git's daemon, a hook of git's, Watchman."""
