"""The shell of a process: clock, loops, health, logs."""
