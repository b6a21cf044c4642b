"""What the commands read from the API server."""
