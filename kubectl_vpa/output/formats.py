"""JSON, YAML, CSV and names: the forms for other programs."""

import csv
import io
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec
import yaml

from kubectl_vpa.arguments import Format
from kubectl_vpa.results.lists import Result, ResultList


def for_programs(
    content: ResultList, output: str, *, headings: bool = True, without: Collection[str] = ()
) -> str | None:
    """Return the text of a list in a format for other programs; None for other formats.

    CSV lacks the fields of ``without``.
    """
    match output:
        case Format.JSON:
            return as_json(content)
        case Format.YAML:
            return as_yaml(content)
        case Format.CSV:
            return as_csv(content.items, headings=headings, without=without)
        case _:
            return None


def as_json(content: ResultList) -> str:
    """Return indented JSON."""
    encoded = msgspec.json.encode(content)
    return msgspec.json.format(encoded, indent=2).decode() + "\n"


def as_yaml(content: ResultList) -> str:
    """Return YAML with the fields of the JSON."""
    return dump_yaml(msgspec.to_builtins(content))


def dump_yaml(content: Any) -> str:
    """Return a YAML document, in the order of the fields."""
    text: str = yaml.dump(
        content, Dumper=_Dumper, sort_keys=False, default_flow_style=False, width=1000
    )
    return text


def as_documents(documents: Sequence[Mapping[str, Any]], *, as_json: bool) -> str:
    """Return objects as YAML documents, or as JSON: a list object unless there is one."""
    if not as_json:
        return "---\n".join(map(dump_yaml, documents))
    listed = {"apiVersion": "v1", "kind": "List", "items": documents}
    content = documents[0] if len(documents) == 1 else listed
    return msgspec.json.format(msgspec.json.encode(content), indent=2).decode() + "\n"


def as_csv(
    items: Sequence[Result | Mapping[str, object]],
    *,
    headings: bool,
    without: Collection[str] = (),
) -> str:
    """Return CSV without some fields; nested fields are columns such as ``cpu.request``."""
    rows = [_flat(msgspec.to_builtins(item)) for item in items]
    for row in rows:
        for name in without:
            del row[name]
    written = io.StringIO()
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(written, names, lineterminator="\n")
    if headings and names:
        writer.writeheader()
    writer.writerows(rows)
    return written.getvalue()


def _flat(item: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in item.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{prefix}{name}.")
        elif isinstance(value, list):
            found[f"{prefix}{name}"] = " ".join(map(str, value))
        else:
            found[f"{prefix}{name}"] = value
    return found


class _Dumper(yaml.SafeDumper):
    """Indents lists, and writes texts of several lines as blocks."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002 - as the library calls it
        super().increase_indent(flow, indentless=False)


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)
