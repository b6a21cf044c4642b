"""The product's story in three minutes: five workloads get right-sized in a sandbox cluster."""
