"""The webhook's certificates: a CA, a serving pair, and where they are kept."""
