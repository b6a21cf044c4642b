"""The creation of VPAs for many workloads: by a command, or by a label of a namespace."""
