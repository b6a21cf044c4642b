"""Who controls whom: the topmost owner of a pod, and the VPA that controls it."""
