"""Recommended amounts, computed from the usage that a VPA sees; no I/O."""
