"""A small Kubernetes cluster in one process, for the demo, the tests and the benchmarks."""
