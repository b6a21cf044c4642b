"""The API server: requests come in, answers and watches go out, objects are kept."""
