"""The shell towards the API server; the only place that knows HTTP statuses and transports."""
