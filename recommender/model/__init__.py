"""The model of usage; no Kubernetes types, no I/O."""
