"""Decisions of the command line: pure functions from what was read to results."""
