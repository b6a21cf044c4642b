"""Wire types: the objects that are sent and received, without any logic."""
