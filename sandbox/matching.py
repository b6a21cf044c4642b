"""Which pods, and which of their containers, a rule of a scenario is about."""

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Self

from sandbox import description
from sandbox.description import Section


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Patterns (``*`` and ``?``) for names, and labels that must all be there; empty is any."""

    namespace: str = ""
    pod: str = ""
    node: str = ""
    container: str = ""
    labels: Mapping[str, str]

    @classmethod
    def parse(cls, section: Section) -> Self:
        """Read ``{namespace, pod, node, container, labels}``, all optional.

        Raises:
            ConfigError: an unknown field, or one of the wrong type.
        """
        found = cls(
            **{
                name: section.take(name, description.text, "")
                for name in ("namespace", "pod", "node", "container")
            },
            labels=section.take("labels", description.labels, {}),
        )
        section.close()
        return found

    def fits_pod(
        self, *, namespace: str, name: str, node: str, labels: Mapping[str, str] | None
    ) -> bool:
        present = labels or {}
        return (
            _fits(self.namespace, namespace)
            and _fits(self.pod, name)
            and _fits(self.node, node)
            and all(present.get(key) == value for key, value in self.labels.items())
        )

    def fits_container(self, name: str) -> bool:
        return _fits(self.container, name)


def _fits(pattern: str, name: str) -> bool:
    return not pattern or fnmatchcase(name, pattern)
