"""The cluster as the updater sees it: caches of slim objects, and the snapshot of one pass."""
