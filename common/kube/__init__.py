"""The client side of the API server; only this package handles HTTP statuses and transports."""
