"""The Kubernetes minor that the sandbox simulates."""

from dataclasses import dataclass

OLDEST_MINOR = 33
NEWEST_MINOR = 36


@dataclass(frozen=True, slots=True, order=True)
class KubernetesVersion:
    """Kubernetes ``1.<minor>``.

    Raises ValueError outside 1.33 … 1.36, the minors whose differences are known
    (kubernetes-resize.md section 0).
    """

    minor: int = NEWEST_MINOR

    def __post_init__(self) -> None:
        if not OLDEST_MINOR <= self.minor <= NEWEST_MINOR:
            raise ValueError(
                f"Kubernetes 1.{self.minor} is not simulated: "
                f"choose 1.{OLDEST_MINOR} to 1.{NEWEST_MINOR}"
            )

    @classmethod
    def parse(cls, text: str) -> "KubernetesVersion":
        """Parse ``1.33``, ``v1.33`` or ``1.33.4``; the patch release is ignored.

        Raises:
            ValueError: the text is no version, or none that is simulated.
        """
        parts = text.removeprefix("v").split(".")
        if len(parts) not in (2, 3) or parts[0] != "1" or not all(p.isdecimal() for p in parts):
            raise ValueError(f"not a Kubernetes version such as 1.36: {text!r}")
        return cls(int(parts[1]))

    def __str__(self) -> str:
        return f"1.{self.minor}"

    @property
    def git_version(self) -> str:
        """The version that ``/version`` reports, with a suffix that names the sandbox."""
        return f"v1.{self.minor}.0+sandbox"
