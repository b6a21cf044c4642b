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
_LEAST_WIDE = 120  # cells; a narrower terminal gets fewer columns
_STATE = Column("STATE", styles=_STYLES)
_AMOUNTS = (Column("CPU"), Column("MEMORY"), Column("DRIFT", right=True))


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
            wide = arguments.output is Format.WIDE
            show_table(results, screen, namespaces=arguments.all_namespaces, wide=wide,
                       headings=headings)  # fmt: skip


def show_table(
    results: Sequence[VpaResult], screen: Screen, *, namespaces: bool, wide: bool, headings: bool
) -> None:
    """Print the table that fits the screen."""
    if wide or screen.width is None or screen.width >= _LEAST_WIDE:
        screen.table(
            tuple(_columns(namespaces=namespaces, wide=wide)),
            [_cells(each, namespaces=namespaces, wide=wide) for each in results],
            headings=headings,
        )
    else:
        screen.table(
            (_STATE, Column("NAME"), *_AMOUNTS, Column("")),
            [_narrow_cells(each, namespaces=namespaces) for each in results],
            headings=headings,
        )


def _columns(*, namespaces: bool, wide: bool) -> Iterator[Column]:
    if namespaces:
        yield Column("NAMESPACE")
    yield from (Column("NAME"), Column("WORKLOAD"), Column("MODE"), *_AMOUNTS)
    if wide:
        yield from (Column("PODS", right=True), Column("DUE", right=True))
    yield from (_STATE, Column("REASON"))


def _cells(result: VpaResult, *, namespaces: bool, wide: bool) -> tuple[str, ...]:
    pods = "-" if result.pods is None else str(result.pods)
    return (
        *((result.namespace,) if namespaces else ()),
        result.name,
        f"{result.workload_kind}/{result.workload_name}",
        result.mode,
        *_amounts(result),
        *((pods, str(result.pods_due)) if wide else ()),
        result.state,
        result.message,
    )


def _narrow_cells(result: VpaResult, *, namespaces: bool) -> tuple[str, ...]:
    """Return cells for a narrow screen; the reason follows below, unless all is well."""
    name = f"{result.namespace}/{result.name}" if namespaces else result.name
    below = "" if result.state is State.OK else f"{result.mode}: {result.message}"
    return (result.state, name, *_amounts(result), below)


def _amounts(result: VpaResult) -> tuple[str, str, str]:
    return (change(CPU, result.cpu), change(MEMORY, result.memory), percent(result.drift))
