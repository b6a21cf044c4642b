"""The API server: requests, responses and watches over the store."""
