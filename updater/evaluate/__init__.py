"""How far pods are from their recommendation, and whether that is worth an update."""
