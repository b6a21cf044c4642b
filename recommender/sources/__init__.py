"""Sources of the model: VPAs, pods, usage, OOM kills, and history from Prometheus."""
