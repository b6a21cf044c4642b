"""Checkpoints: encoding, loading, writing and garbage collection."""
