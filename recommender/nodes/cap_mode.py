"""The values of ``--cap-to-nodes`` and of the annotation that overrides it."""

import enum

CAP_ANNOTATION = "vpa.autoscaling/cap-to-nodes"


class CapMode(enum.StrEnum):
    """When targets are lowered so that a pod fits a node."""

    AUTO = "auto"  # unless an autoscaler could make a larger node that isn't known
    ALWAYS = "always"  # to the largest known node
    NEVER = "never"
