"""Picks the pods that drifted from their recommendation, and resizes or evicts them, safely."""
