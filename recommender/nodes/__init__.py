"""Nodes that pods may run on: those of the cluster, and those that an autoscaler could make."""
