"""The base of every type that crosses the wire."""

from datetime import datetime
from typing import Annotated, TypeAlias

import msgspec

QuantityJson: TypeAlias = str | int | float | None
"""A quantity in JSON. The API server writes text; manifests may also have bare numbers."""

Time: TypeAlias = Annotated[datetime, msgspec.Meta(tz=True)]
"""A time. Decoding refuses a time without a zone, because it can't be compared."""


class Wire(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A Kubernetes object, or a part of one, as the API server writes it.

    Fields that we don't declare are skipped while decoding, so a newer API server can't
    break us; for the same reason a decoded object is never written back whole, only
    patched. Collections are read-only types (``tuple``, ``Mapping``): objects in a watch
    cache are shared, so they must not be changed. A field that Go writes as ``null`` when
    unset is declared with ``| None``.
    """
