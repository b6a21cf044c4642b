"""A real control plane on loopback: etcd and Kubernetes' own servers, with simulated nodes."""
