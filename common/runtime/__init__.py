"""The runtime of a process: clock, loops, health and logs."""
