"""``kubectl vpa``: what the VPAs of a cluster recommend and do, and why."""
