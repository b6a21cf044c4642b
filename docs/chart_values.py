"""The table of values in the README of the chart, made from the comments of its values.yaml."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml

CHART = Path(__file__).resolve().parent.parent / "deploy" / "chart"
README = CHART / "README.md"
MARK = "<!-- Made by `make docs` from values.yaml. Don't edit below. -->\n"

Row = tuple[str, str, str]


def with_table(readme: str, values: str) -> str:
    """Return the text of the README with the table of these values after the mark."""
    cells = [("value", "default", "meaning"), ("---", "---", "---"), *rows(values)]
    lines = (" | ".join(cell.replace("|", "\\|") for cell in row) for row in cells)
    text, mark, _ = readme.partition(MARK)
    return text + mark + "\n" + "".join(f"| {line} |\n" for line in lines)


def rows(values: str) -> Iterator[Row]:
    """Yield name, default and meaning of each value that has a comment."""
    root = yaml.compose(values, Loader=yaml.SafeLoader)
    return _rows("", root, values.splitlines())


def _rows(prefix: str, mapping: yaml.Node | None, lines: Sequence[str]) -> Iterator[Row]:
    if not isinstance(mapping, yaml.MappingNode) or mapping.flow_style:
        return
    for key, value in mapping.value:
        name = f"{prefix}{key.value}"
        comment = _comment_above(key, lines)
        inner = list(_rows(f"{name}.", value, lines))
        if comment:
            yield f"`{name}`", "" if inner else f"`{_default(value)}`", comment
        yield from inner


def _comment_above(key: yaml.Node, lines: Sequence[str]) -> str:
    above = lines[key.start_mark.line - 1].strip() if key.start_mark.line else ""
    return above.removeprefix("# ") if above.startswith("#") else ""


def _default(value: yaml.Node) -> str:
    return json.dumps(yaml.safe_load(yaml.serialize(value)))


def main() -> None:
    """Write the README."""
    values = (CHART / "values.yaml").read_text("utf-8")
    README.write_text(with_table(README.read_text("utf-8"), values), "utf-8")
