"""Code that all processes share: pure rules, wire types and clients of the cluster."""
