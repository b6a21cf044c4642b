"""On which nodes a pod may run, and how much room it needs and finds there; pure functions."""
