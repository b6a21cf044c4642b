"""What we know about usage; no Kubernetes types, no I/O."""
