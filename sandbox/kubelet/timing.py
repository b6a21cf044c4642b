"""How long things take on a simulated node."""

from dataclasses import dataclass, fields
from typing import Self

from sandbox import description
from sandbox.description import Section


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """All in seconds. The last five are the kubelet's own constants."""

    start_delay: float = 1.0  # from binding to running containers: pull, sandbox, network
    init_delay: float = 0.5  # one init container
    ready_delay: float = 0.0  # from running to ready, where no readiness probe says otherwise
    stop_delay: float = 1.0  # from SIGTERM to the end, if the grace period allows it
    resize_delay: float = 0.5  # from an admitted resize to its actuation
    restart_delay: float = 1.0  # from the end of a container to its next run, without back-off
    backoff: float = 10.0  # before the second restart; doubles with each further one
    longest_backoff: float = 300.0
    backoff_reset: float = 600.0  # a container that ran so long starts again without back-off
    retry_deferred: float = 180.0  # between two looks at deferred resizes
    retry_failed: float = 10.0  # between two tries to actuate a resize that failed
    memory_check: float = 1.0  # between two looks for containers above their memory limit
    heartbeat: float = 10.0  # renewal of the node's Lease
    node_status: float = 300.0  # between two writes of a node's status without a change

    @classmethod
    def parse(cls, section: Section) -> Self:
        """Read the fields with dashes for underscores, as Go durations or seconds.

        Raises:
            ConfigError: an unknown field, or no duration.
        """
        found = {
            field.name: section.take(
                field.name.replace("_", "-"), description.seconds, field.default
            )
            for field in fields(cls)
        }
        section.close()
        return cls(**found)
