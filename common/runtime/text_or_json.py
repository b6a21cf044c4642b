"""Answers as text if the client prefers it, else as JSON."""

from typing import Any

import msgspec


def wants_text(accept: str) -> bool:
    """Return True if an ``Accept`` header lists text before JSON."""
    for part in accept.split(","):
        media = part.partition(";")[0].strip().lower()
        if media in {"text/plain", "text/*"}:
            return True
        if media in {"application/json", "application/*", "*/*"}:
            return False
    return False


def described(
    answer: type[msgspec.Struct], *, path: str, method: str, status: int, text: str
) -> dict[str, Any]:
    """Return an answer for ``/openapi.json``: the schema of its JSON, and an example of its text.

    The parameters are those of ``described_json``.
    """
    found = described_json(answer, path=path, method=method, status=status)
    found["content"]["text/plain"] = {"schema": {"type": "string"}, "example": text}
    return found


def described_json(
    answer: type[msgspec.Struct], *, path: str, method: str, status: int
) -> dict[str, Any]:
    """Return an answer for ``/openapi.json``: the schema of its JSON.

    The schema contains the definitions that it refers to, so ``path`` (with its slash), ``method``
    and ``status`` have to locate the answer in the document.
    """
    # References can't contain the braces of path parameters.
    place = path.replace("/", "~1").replace("{", "%7B").replace("}", "%7D")
    here = f"#/paths/{place}/{method}/responses/{status}/content"
    template = here + "/application~1json/schema/$defs/{name}"
    (schema,), parts = msgspec.json.schema_components([answer], ref_template=template)
    return {"content": {"application/json": {"schema": schema | {"$defs": parts}}}}
