"""Owners and VPAs: the topmost owner of a pod, and the VPA that controls it."""
