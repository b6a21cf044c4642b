"""The values of ``--cap-to-nodes`` and of the annotation that overrides it."""

import enum

CAP_ANNOTATION = "vpa.autoscaling/cap-to-nodes"


class CapMode(enum.StrEnum):
    """When targets are lowered so that a pod fits a node."""

    AUTO = "auto"  # unless an autoscaler could make a larger node that isn't known
    ALWAYS = "always"  # to the largest known node
    NEVER = "never"

    @classmethod
    def parse(cls, text: str) -> "CapMode":
        """Return the mode of a flag's or an annotation's value.

        Raises:
            ValueError: the value is no mode.
        """
        for mode in cls:
            if text == mode:
                return mode
        raise ValueError(f"none of {', '.join(cls)}: {text!r}")
