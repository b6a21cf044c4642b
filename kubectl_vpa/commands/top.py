"""``kubectl vpa top``: what pods use now, beside their requests and recommendation."""

import argparse
import asyncio
from collections.abc import Iterator, Sequence

from common.api.metrics import PodMetrics
from common.errors import ConfigError, NotFoundError
from common.kube.endpoints import POD_METRICS
from kubectl_vpa.arguments import (
    ExitCode,
    Format,
    add_connection,
    add_output,
    add_scope,
    add_vpa,
)
from kubectl_vpa.cluster.fleet import read_fleet
from kubectl_vpa.cluster.reader import Reader
from kubectl_vpa.commands.session import Session, connected
from kubectl_vpa.judge.live_usage import Detail, most_unequal_first, usage_by_pod, usage_of
from kubectl_vpa.judge.vpa_status import judge_groups
from kubectl_vpa.output import formats
from kubectl_vpa.output.amounts import share, short
from kubectl_vpa.output.screen import Column, Screen
from kubectl_vpa.results.lists import ResultList
from kubectl_vpa.results.top import UsageResult

_FORMATS = (Format.TABLE, Format.JSON, Format.YAML, Format.CSV)
_PAUSE = 5.0  # seconds between two tables; metrics-server measures every 15
_OTHER_LINES = 4  # of a table on the screen: headings, notes and the cursor
_COLUMNS = tuple(
    Column(each, right=True) for each in ("PODS", "USAGE", "REQUEST", "USED", "TARGET")
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_vpa(parser)
    group = parser.add_argument_group("detail")
    group.add_argument("--pods", action="store_true", help="Print a row for each pod.")
    group.add_argument("--containers", action="store_true", help="Print a row for each container.")
    group.add_argument(
        "--watch",
        action="store_true",
        help=f"On a terminal, print the table every {_PAUSE:.0f} seconds until Ctrl-C.",
    )
    add_scope(parser)
    add_output(parser, _FORMATS)
    add_connection(parser)


async def run(arguments: argparse.Namespace, screen: Screen) -> int:
    """Read and print usage, once or until the person interrupts it."""
    watched = arguments.watch and arguments.output is Format.TABLE and screen.height is not None
    async with connected(arguments, screen) as session:
        while True:
            results = await _read(session, arguments)
            screen.finish_progress()
            if watched:
                screen.clear()
            most = max(1, screen.height - _OTHER_LINES) if watched and screen.height else None
            _print(results, session, arguments, screen, most=most)
            if not watched:
                return ExitCode.OK
            await asyncio.sleep(_PAUSE)


async def _read(session: Session, arguments: argparse.Namespace) -> Sequence[UsageResult]:
    """Return the usage of the chosen VPAs.

    Raises:
        ConfigError: there is no usage, or no such VPA.
    """
    reader = session.reader
    async with asyncio.TaskGroup() as group:
        measuring = group.create_task(_metrics(reader))
        reading = group.create_task(
            read_fleet(reader, label_selector=arguments.selector, competitors=False)
        )
    fleet, usage = reading.result(), usage_by_pod(measuring.result())
    detail = Detail(pods=arguments.pods, containers=arguments.containers)
    results = [
        result
        for facts in fleet.named(arguments.subject, session.namespace)
        if not facts.controlled_by
        for result in usage_of(facts, judge_groups(facts, now=session.now), usage, detail=detail)
    ]
    return sorted(results, key=most_unequal_first)


async def _metrics(reader: Reader) -> Sequence[PodMetrics]:
    try:
        return await reader.list(POD_METRICS, needed=True) or ()
    except NotFoundError as error:
        problem = "the metrics API isn't served; install metrics-server, or another one"
        raise ConfigError(problem) from error


def _print(
    results: Sequence[UsageResult],
    session: Session,
    arguments: argparse.Namespace,
    screen: Screen,
    *,
    most: int | None,
) -> None:
    """Print the results, or as many of them as the screen has lines for."""
    notes = tuple(session.reader.notes)
    content = ResultList(kind="UsageList", items=tuple(results), notes=notes)
    text = formats.for_programs(content, arguments.output, headings=not arguments.no_headers)
    if text is not None:
        screen.raw(text)
    elif not results:
        screen.notes(("no usage of pods that a VPA controls",), about="nothing found")
    else:
        _show(results[:most], arguments, screen)
    screen.notes(notes)


def _show(results: Sequence[UsageResult], arguments: argparse.Namespace, screen: Screen) -> None:
    rows = [dict(_cells(each, arguments, wide=screen.is_wide)) for each in results]
    screen.rows(rows, _COLUMNS, headings=not arguments.no_headers)


def _cells(
    result: UsageResult, arguments: argparse.Namespace, *, wide: bool
) -> Iterator[tuple[str, str]]:
    """Yield headings and cells of a row."""
    everywhere, complete = arguments.all_namespaces, wide or not arguments.pods
    if everywhere and wide:
        yield ("NAMESPACE", result.namespace)
    if complete:
        shown = f"{result.namespace}/{result.vpa}" if everywhere and not wide else result.vpa
        yield ("VPA", shown)
    if arguments.pods:
        yield ("POD", result.pod or "")
    elif wide:
        yield ("WORKLOAD", f"{result.workload_kind}/{result.workload_name}")
        yield ("PODS", str(result.pods))
    if arguments.containers:
        yield ("CONTAINER", result.container or "")
    yield ("RESOURCE", result.resource)
    yield ("USAGE", short(result.resource, result.usage))
    yield ("REQUEST", _amount(result, result.request, missing="none"))
    yield ("USED", share(result.used))
    yield ("TARGET", _amount(result, result.target))
    lower, upper = (_amount(result, each) for each in (result.lower_bound, result.upper_bound))
    if complete:
        yield ("RANGE", "-" if lower == upper == "-" else f"{lower} … {upper}")
    yield ("", "")  # the last column may get lines of its own


def _amount(result: UsageResult, amount: str | None, *, missing: str = "-") -> str:
    return missing if amount is None else short(result.resource, amount)
