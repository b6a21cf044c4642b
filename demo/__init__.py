"""The demo: the components right-size five workloads in a sandbox cluster in three minutes."""
