"""What the three processes share: pure rules, wire types and the shell towards the cluster."""
