"""The recorded responses: one file per subject, one line per response."""

import json
from collections.abc import Mapping
from pathlib import Path

from recorded_requests.runner import Answer

FOLDER = Path(__file__).parents[1] / "conformance" / "recorded"


def write(subject: str, version: str, answers: Mapping[str, list[Answer]]) -> None:
    """Replace a subject's file."""
    lines = [f"  {json.dumps(name)}: [\n{_lines(answers[name])}\n  ]" for name in sorted(answers)]
    text = ",\n".join(lines)
    head = f'{{\n "kubernetes": {json.dumps(version)},\n "answers": {{\n'
    (FOLDER / f"{subject}.json").write_text(f"{head}{text}\n }}\n}}\n", encoding="utf-8")


def read(subject: str) -> dict[str, list[Answer]]:
    """Return the responses of a subject, by case."""
    text = (FOLDER / f"{subject}.json").read_text(encoding="utf-8")
    answers: dict[str, list[Answer]] = json.loads(text)["answers"]
    return answers


def _lines(answers: list[Answer]) -> str:
    return ",\n".join(
        "   " + json.dumps(one, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        for one in answers
    )
