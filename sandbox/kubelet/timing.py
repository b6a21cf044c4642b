"""Durations on a simulated node."""

from sandbox.description import Described, Seconds


class Timing(Described, frozen=True, kw_only=True):
    """All in seconds. The last five are the kubelet's own constants."""

    start_delay: Seconds = 1.0  # from binding to running containers: pull, sandbox, network
    init_delay: Seconds = 0.5  # one init container
    ready_delay: Seconds = 0.0  # from running to ready, where no readiness probe says otherwise
    stop_delay: Seconds = 1.0  # from SIGTERM to the end, if the grace period allows it
    resize_delay: Seconds = 0.5  # from an admitted resize to its actuation
    restart_delay: Seconds = 1.0  # from the end of a container to its next run, without back-off
    backoff: Seconds = 10.0  # before the second restart; doubles with each further one
    longest_backoff: Seconds = 300.0
    backoff_reset: Seconds = 600.0  # a container that ran so long starts again without back-off
    retry_deferred: Seconds = 180.0  # between two retries of deferred resizes
    retry_failed: Seconds = 10.0  # between two tries to actuate a failed resize
    memory_check: Seconds = 1.0  # between two checks of memory limits
    heartbeat: Seconds = 10.0  # renewal of the node's Lease
    node_status: Seconds = 300.0  # between two writes of a node's status without a change
