"""Kinds, defaults, schemas and rules of objects, and the store."""
