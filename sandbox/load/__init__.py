"""The load mode: an API server for benchmarks that answers from prepared bytes."""
