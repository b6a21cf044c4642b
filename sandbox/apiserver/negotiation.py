"""What an ``Accept`` header asks for, and what is said when nobody can serve it.

A real server asks twice: its routes know media types, what stands behind them knows parameters.
Source: ``RouterJSR311`` of go-restful, and k8s.io/apiserver
pkg/endpoints/handlers/negotiation/negotiate.go.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from sandbox.apiserver.forms import Form, table_form
from sandbox.errors import ApiError, not_acceptable

JSON: Final = "application/json"
YAML: Final = "application/yaml"
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"

_ANY: Final = "*/*"
_TYPES: Final = (JSON, YAML, PROTOBUF)
_STREAMS: Final = (f"{JSON};stream=watch", f"{PROTOBUF};stream=watch")
_GROUP: Final = ("meta.k8s.io", "v1")
_AS: Final[Mapping[str, Form]] = {
    "Table": Form.TABLE,
    "PartialObjectMetadata": Form.METADATA,
    "PartialObjectMetadataList": Form.METADATA_LIST,
}


def negotiate(
    accept: str,
    included: str = "",
    *,
    collection: bool = False,
    watch: bool = False,
    custom: bool = False,
) -> Form:
    """The first form of the header that can be served; nothing means whole objects.

    ``included`` says what each row of a table has beside its cells. ``collection`` and ``watch``
    tell what is asked for, ``custom`` whether it is a custom resource.

    Raises:
        ApiError: 406, there is none; 400, rows can't include that.
    """
    if not accept:
        return Form.WHOLE
    offers = _offers(accept)
    if not custom:
        _check_route([media for media, _ in offers], collection=collection)
    for media, parameters in offers:
        if media == YAML and watch:
            break
        if media not in (JSON, YAML, "application/*", _ANY):
            continue
        wanted = parameters.get("as")
        if wanted is None:
            return Form.WHOLE
        if wanted in _AS and (parameters.get("g"), parameters.get("v")) == _GROUP:
            form = _AS[wanted]
            return table_form(included) if form is Form.TABLE else form
    accepted: Sequence[str] = _STREAMS if watch else _TYPES
    if any(media == PROTOBUF for media, _ in offers):  # which this server can't write
        accepted = [one for one in accepted if not one.startswith(PROTOBUF)]
    raise not_acceptable(f"only the following media types are accepted: {', '.join(accepted)}")


@lru_cache(maxsize=64)
def wants_yaml(accept: str) -> bool:
    """Whether an answer that can be had in JSON and in YAML is to be YAML."""
    for media, _ in _offers(accept):
        if media in (JSON, YAML, "application/*", _ANY):
            return media == YAML
    return False


@lru_cache(maxsize=64)
def _offers(accept: str) -> tuple[tuple[str, Mapping[str, str]], ...]:
    """The media types of the header, each with its parameters."""
    offers = []
    for offer in accept.split(","):
        media, *raw = (part.strip() for part in offer.split(";"))
        offers.append((media, dict(item.partition("=")[::2] for item in raw)))
    return tuple(offers)


def _check_route(offered: Sequence[str], *, collection: bool) -> None:
    """Refuse what no route of a built-in resource writes.

    Raises:
        ApiError: 406.
    """
    if any(media == _ANY or media in _TYPES for media in offered):
        return
    written = (*_TYPES, *_STREAMS) if collection else _TYPES
    text = f"406: Not Acceptable\n\nAvailable representations: {', '.join(written)}"
    raise ApiError(406, "NotAcceptable", text, details={})
