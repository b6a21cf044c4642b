"""The base of every type that crosses the wire."""

from datetime import datetime
from typing import Annotated, TypeAlias

import msgspec

QuantityJson: TypeAlias = str | int | float | None
"""A quantity as JSON holds it. The API server writes text; people also write bare numbers."""

Time: TypeAlias = Annotated[datetime, msgspec.Meta(tz=True)]
"""A moment. One that doesn't name its zone can't be compared with any other: it is refused."""


class Wire(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A Kubernetes object, or a part of one, as the API server writes it.

    Fields that we don't declare are skipped while decoding, so a newer API server can't
    break us; for the same reason a decoded object is never written back whole, only
    patched. Collections are read-only types (``tuple``, ``Mapping``): objects in a watch
    cache are shared, and nobody may edit them in place. A field that Go writes as ``null``
    when unset says so with ``| None``.
    """
