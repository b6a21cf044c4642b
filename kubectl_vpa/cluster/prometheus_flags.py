"""The recommender's flags for history from Prometheus, as arguments of a command."""

import argparse
import dataclasses
from collections.abc import Iterator
from typing import Any

from common.flags import add_flag, groups, meaning
from recommender.sources.usage_source_settings import (
    HISTORY_QUERIES,
    PROMETHEUS,
    UsageSourceSettings,
)

_STORAGE = "storage"  # the source of the history is chosen by other means
_ADDRESS = "prometheus_address"


def add_prometheus(parser: argparse.ArgumentParser) -> None:
    """Add the flags with the recommender's names, defaults and meanings.

    The address has no default: without it Prometheus isn't read.
    """
    for title in (PROMETHEUS, HISTORY_QUERIES):
        group = parser.add_argument_group(title)
        for field in _fields(title):
            has_default = field.name != _ADDRESS
            default = field.default if has_default else ""
            text = meaning(field) if has_default else field.metadata["help"]
            add_flag(group, field, default=default, help=text)


def prometheus_settings(arguments: argparse.Namespace) -> UsageSourceSettings:
    """Return the settings that the arguments describe.

    Raises:
        ConfigError: credentials exclude each other, or a duration is invalid.
    """
    values = {
        field.name: getattr(arguments, field.name)
        for title in (PROMETHEUS, HISTORY_QUERIES)
        for field in _fields(title)
    }
    return UsageSourceSettings(storage="prometheus", **values)


def _fields(title: str) -> Iterator[dataclasses.Field[Any]]:
    return (each for each in groups(UsageSourceSettings)[title] if each.name != _STORAGE)
