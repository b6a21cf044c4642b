"""Wire types: what is sent and received, and nothing that we decide."""
