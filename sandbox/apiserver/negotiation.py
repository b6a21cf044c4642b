"""What an ``Accept`` header asks for: whole objects, their metadata alone, or a table."""

from collections.abc import Mapping
from typing import Final

from sandbox.apiserver.forms import Form
from sandbox.errors import not_acceptable

JSON: Final = "application/json"

_ANY: Final = (JSON, "application/*", "*/*")
_GROUP: Final = ("meta.k8s.io", "v1")
_AS: Final[Mapping[str, Form]] = {
    "Table": Form.TABLE,
    "PartialObjectMetadata": Form.METADATA,
    "PartialObjectMetadataList": Form.METADATA,
}


def negotiate(accept: str) -> Form:
    """Return the first form of the header that can be served; nothing means whole objects.

    Raises:
        ApiError: 406, there is none.
    """
    for offer in accept.split(",") if accept else ():
        media, *raw = (part.strip() for part in offer.split(";"))
        if media not in _ANY:
            continue
        parameters = dict(item.partition("=")[::2] for item in raw)
        if "as" not in parameters:
            return Form.WHOLE
        form = _AS.get(parameters["as"])
        if form is not None and (parameters.get("g"), parameters.get("v")) == _GROUP:
            return form
    if accept:
        raise not_acceptable(f"only the following media types are accepted: {JSON}")
    return Form.WHOLE
