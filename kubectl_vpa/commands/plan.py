"""``kubectl vpa plan``: what the next pass of the updater would do with each pod."""

import argparse
import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from common.api.autoscaling import VerticalPodAutoscaler
from common.kube.endpoints import VPAS
from common.read_model.updater import PlannedVpa
from common.resources import CPU, MEMORY
from kubectl_vpa.arguments import (
    ExitCode,
    Format,
    add_connection,
    add_output,
    add_scope,
    add_vpa,
)
from kubectl_vpa.cluster.components import Components
from kubectl_vpa.cluster.fleet import no_such_vpa, read_fleet
from kubectl_vpa.commands.session import Session, connected
from kubectl_vpa.judge import planned
from kubectl_vpa.judge.last_pass import LastPass
from kubectl_vpa.judge.planned import PlanGroup
from kubectl_vpa.output import formats
from kubectl_vpa.output.amounts import change
from kubectl_vpa.output.screen import Column, Screen
from kubectl_vpa.output.times import ago, moment
from kubectl_vpa.results.plan import PlanResult, PlanResultList, PlanSource

_FORMATS = (Format.TABLE, Format.WIDE, Format.JSON, Format.YAML, Format.CSV)
_STYLES = {"evict": "red", "resize": "magenta", "wait": "yellow", "leave": "green"}
_COLUMNS = (Column("DECISION", styles=_STYLES), Column("PODS", right=True))
_NOTHING = "Nothing: "  # begins a remedy that takes no action
_DERIVED = (
    "derived from the objects, without what the updater alone knows: its flags, its limits, and "
    "the results of earlier actions"
)


@dataclass(frozen=True, slots=True)
class _Plan:
    results: Sequence[PlanResult]
    last: LastPass | None = None  # None: it is derived


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_vpa(parser)
    add_scope(parser)
    add_output(parser, _FORMATS)
    add_connection(parser)


async def run(arguments: argparse.Namespace, screen: Screen) -> int:
    """Read and print the plan."""
    async with connected(arguments, screen) as session:
        plan = await _read(session, arguments)
        notes = tuple(session.reader.notes)
        now = session.now
    screen.finish_progress()
    content = PlanResultList(
        kind="PlanList",
        items=tuple(plan.results),
        notes=notes,
        source=PlanSource.DERIVED if plan.last is None else PlanSource.UPDATER,
        pass_at=None if plan.last is None else plan.last.at,
    )
    text = formats.for_programs(content, arguments.output, headings=not arguments.no_headers)
    if text is not None:
        screen.raw(text)
    elif not plan.results:
        screen.notes(("no VPA",), about="nothing found")
    else:
        _show(plan, arguments, screen)
        screen.notes((_summary(plan, now),), about="plan")
    screen.notes(notes)
    return ExitCode.OK


async def _read(session: Session, arguments: argparse.Namespace) -> _Plan:
    """Return the updater's plan, or else the derived one, for the chosen VPAs."""
    reader, name = session.reader, arguments.subject
    pages: list[PlannedVpa] = []
    async with asyncio.TaskGroup() as group:
        reading = group.create_task(
            Components(reader).plan(pages.extend, namespace=reader.namespace, vpa=name)
        )
        listing = group.create_task(
            reader.list(
                VPAS,
                label_selector=arguments.selector,
                field_selector=f"metadata.name={name}" if name else "",
                needed=True,
            )
        )
    vpas = listing.result() or ()
    if name and not vpas:
        raise no_such_vpa(name, session.namespace)
    last = reading.result()
    if last is not None:
        return _Plan(sorted(_decided(vpas, pages), key=planned.order), last)
    fleet = await read_fleet(reader, label_selector=arguments.selector)
    chosen = {(vpa.metadata.namespace, vpa.metadata.name) for vpa in vpas}
    results = [
        result
        for facts in fleet.facts()
        if (facts.vpa.metadata.namespace, facts.vpa.metadata.name) in chosen
        for result in planned.derived(facts, now=session.now)
    ]
    return _Plan(sorted(results, key=planned.order))


def _decided(
    vpas: Sequence[VerticalPodAutoscaler], pages: Sequence[PlannedVpa]
) -> Iterator[PlanResult]:
    """Yield the decisions on the pods of VPAs that the person may list."""
    found: dict[tuple[str, str], list[PlannedVpa]] = {}
    for each in pages:
        found.setdefault((each.namespace, each.name), []).append(each)
    for vpa in vpas:
        parts = found.get((vpa.metadata.namespace, vpa.metadata.name), ())
        for part in parts:
            yield from planned.of_updater(vpa, part)
        if not parts:
            yield planned.unseen(vpa)


def _summary(plan: _Plan, now: datetime) -> str:
    """Return the numbers of pods by decision, and the origin of the plan."""
    pods = Counter(each.decision for each in plan.results if each.pod is not None)
    counts = ", ".join(f"{decision} {pods[decision]}" for decision in _STYLES)
    last = plan.last
    if last is None:
        return f"{counts} of {pods.total()} pods; {_DERIVED}"
    late = "" if last.is_fresh(now) else "; the next one is overdue"
    origin = f"the updater's pass of {moment(last.at)}, {ago(last.at, now=now)} ago"
    return f"{counts} of {pods.total()} pods; {origin}{late}"


def _show(plan: _Plan, arguments: argparse.Namespace, screen: Screen) -> None:
    """Print a row for each pod, or for pods that are alike."""
    wide = arguments.output is Format.WIDE
    roomy = wide or screen.is_wide
    groups = (
        [PlanGroup(each, each.pod is not None) for each in plan.results]
        if wide
        else planned.grouped(plan.results)
    )
    rows = [
        dict(_cells(group, namespaces=arguments.all_namespaces, wide=wide, roomy=roomy))
        for group in groups
    ]
    screen.rows(rows, _COLUMNS, headings=not arguments.no_headers)


def _cells(
    group: PlanGroup, *, namespaces: bool, wide: bool, roomy: bool
) -> Iterator[tuple[str, str]]:
    """Yield headings and cells of a row."""
    one = group.one
    yield ("DECISION", one.decision)
    if namespaces and roomy:
        yield ("NAMESPACE", one.namespace)
    yield ("VPA", f"{one.namespace}/{one.vpa}" if namespaces and not roomy else one.vpa)
    if wide:
        yield ("POD", one.pod or "-")
        yield ("NODE", one.node or "-")
    elif roomy:
        yield ("WORKLOAD", f"{one.workload_kind}/{one.workload_name}")
    if not wide:
        yield ("PODS", str(group.pods) if group.pods else "-")
    yield ("CPU", change(CPU, one.cpu))
    yield ("MEMORY", change(MEMORY, one.memory))
    yield ("REASON" if roomy else "", _reason(one))


def _reason(one: PlanResult) -> str:
    """Return the reason, its end, and what would unblock the pod."""
    until = "" if one.until is None else f", until {moment(one.until)}"
    if one.unblock is None:
        return f"{one.message}{until}"
    remedy = one.unblock.rstrip(".")
    if remedy.startswith(_NOTHING):
        return f"{one.message}{until}; {remedy.removeprefix(_NOTHING)}"
    return f"{one.message}{until}. To unblock it: {remedy}"
