"""Checkpoints: encoded, merged, loaded, written and garbage-collected."""
