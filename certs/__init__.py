"""The webhook's certificates: a CA, a serving pair, and the stores that keep them."""
