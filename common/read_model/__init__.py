"""The types of the read API: what the components answer, and what clients decode."""
