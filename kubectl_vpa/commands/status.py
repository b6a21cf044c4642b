"""``kubectl vpa status``: one line for each VPA, the worst first."""

import argparse
import asyncio
from collections.abc import Iterator, Mapping, Sequence

from common.resources import CPU, MEMORY
from kubectl_vpa.arguments import (
    ExitCode,
    Format,
    add_connection,
    add_output,
    add_scope,
)
from kubectl_vpa.cluster.components import Components
from kubectl_vpa.cluster.fleet import read_fleet
from kubectl_vpa.commands.session import connected
from kubectl_vpa.judge.vpa_status import judge_vpa, worst_first
from kubectl_vpa.output import formats
from kubectl_vpa.output.amounts import change, percent
from kubectl_vpa.output.screen import Column, Screen
from kubectl_vpa.results.lists import ResultList
from kubectl_vpa.results.status import State, VpaResult

_STYLES: Mapping[str, str] = {
    State.BLOCKED: "red",
    State.CONFLICTING: "magenta",
    State.NO_DATA: "yellow",
    State.WAITING: "cyan",
    State.OK: "green",
}
_COLUMNS = (
    Column("STATE", styles=_STYLES),
    *(Column(each, right=True) for each in ("DRIFT", "PODS", "DUE")),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_scope(parser)
    add_output(parser)
    add_connection(parser)


async def run(arguments: argparse.Namespace, screen: Screen) -> int:
    """Read, judge and print."""
    async with connected(arguments, screen) as session:
        async with asyncio.TaskGroup() as group:
            viewing = group.create_task(Components(session.reader).view(now=session.now))
            reading = group.create_task(
                read_fleet(session.reader, label_selector=arguments.selector)
            )
        view = viewing.result()
        results = sorted(
            (
                view.refine(judge_vpa(facts, now=session.now), facts)
                for facts in reading.result().facts()
            ),
            key=worst_first,
        )
        notes = tuple(session.reader.notes)
    screen.finish_progress()
    _print(results, notes, arguments, screen)
    screen.notes(notes)
    return ExitCode.OK


def _print(
    results: Sequence[VpaResult],
    notes: Sequence[str],
    arguments: argparse.Namespace,
    screen: Screen,
) -> None:
    headings = not arguments.no_headers
    content = ResultList(kind="StatusList", items=tuple(results), notes=tuple(notes))
    text = formats.for_programs(content, arguments.output, headings=headings)
    if text is not None:
        screen.raw(text)
        return
    match arguments.output:
        case Format.NAME:
            for each in results:
                screen.text(f"verticalpodautoscaler.autoscaling.k8s.io/{each.name}")
        case _ if not results:
            place = "any namespace" if arguments.all_namespaces else "this namespace"
            screen.notes((f"no VPA in {place}",), about="nothing found")
        case _:
            _show(results, arguments, screen)


def _show(results: Sequence[VpaResult], arguments: argparse.Namespace, screen: Screen) -> None:
    """Print the table that fits the screen."""
    namespaces, wide = arguments.all_namespaces, arguments.output is Format.WIDE
    cells = (
        (dict(_cells(each, namespaces=namespaces, wide=wide)) for each in results)
        if wide or screen.is_wide
        else (dict(_narrow_cells(each, namespaces=namespaces)) for each in results)
    )
    screen.rows(tuple(cells), _COLUMNS, headings=not arguments.no_headers)


def _cells(result: VpaResult, *, namespaces: bool, wide: bool) -> Iterator[tuple[str, str]]:
    """Yield headings and cells of a row."""
    if namespaces:
        yield ("NAMESPACE", result.namespace)
    yield ("NAME", result.name)
    yield ("WORKLOAD", f"{result.workload_kind}/{result.workload_name}")
    yield ("MODE", result.mode)
    yield from _amounts(result)
    if wide:
        yield ("PODS", "-" if result.pods is None else str(result.pods))
        yield ("DUE", str(result.pods_due))
    yield ("STATE", result.state)
    yield ("REASON", result.message)


def _narrow_cells(result: VpaResult, *, namespaces: bool) -> Iterator[tuple[str, str]]:
    """Yield the cells for a narrow screen; the reason follows below, unless all is well."""
    yield ("STATE", result.state)
    yield ("NAME", f"{result.namespace}/{result.name}" if namespaces else result.name)
    yield from _amounts(result)
    yield ("", "" if result.state is State.OK else f"{result.mode}: {result.message}")


def _amounts(result: VpaResult) -> Iterator[tuple[str, str]]:
    yield ("CPU", change(CPU, result.cpu))
    yield ("MEMORY", change(MEMORY, result.memory))
    yield ("DRIFT", percent(result.drift))
