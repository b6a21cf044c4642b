"""The watch caches of the updater, and the snapshot of one pass."""
