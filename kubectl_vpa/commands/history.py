"""``kubectl vpa history``: what the updater did, and how the usage of a VPA is distributed."""

import argparse
import asyncio
from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from common.api.autoscaling import VerticalPodAutoscaler
from common.kube.endpoints import CHECKPOINTS, EVENTS, VPAS
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
from kubectl_vpa.cluster.reader import Reader
from kubectl_vpa.commands.session import Session, connected
from kubectl_vpa.judge import past_actions
from kubectl_vpa.judge.findings import RECOMMENDER
from kubectl_vpa.judge.usage_history import usage_history
from kubectl_vpa.output import formats
from kubectl_vpa.output.amounts import plain_number, short
from kubectl_vpa.output.screen import Column, Screen
from kubectl_vpa.output.times import moment, stamp
from kubectl_vpa.results.history import ContainerHistory, HistoryResult, HistoryResultList

_FORMATS = (Format.TABLE, Format.JSON, Format.YAML, Format.CSV)
_STYLES = {"evict": "red", "resize": "magenta", "blocked": "yellow", "suspended": "yellow"}
_OUTCOMES = {
    "replaced_right": "replaced",
    "replaced_wrong": "replaced, without the target",
    "not_replaced": "not replaced",
}
_COLUMNS = (Column("ACTION", styles=_STYLES),)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_vpa(parser)
    add_scope(parser)
    add_output(parser, _FORMATS)
    add_connection(parser)


async def run(arguments: argparse.Namespace, screen: Screen) -> int:
    """Read and print."""
    async with connected(arguments, screen) as session:
        results, usage = await _read(session, arguments)
        notes = tuple(session.reader.notes)
    screen.finish_progress()
    content = HistoryResultList(
        kind="HistoryList", items=tuple(results), notes=notes, usage=tuple(usage)
    )
    text = formats.for_programs(content, arguments.output, headings=not arguments.no_headers)
    if text is not None:
        screen.raw(text)
    else:
        _show(results, usage, arguments, screen)
        screen.notes(_missing(results, usage, arguments.subject), about="nothing found")
    screen.notes(notes)
    return ExitCode.OK


async def _read(
    session: Session, arguments: argparse.Namespace
) -> tuple[Sequence[HistoryResult], Sequence[ContainerHistory]]:
    """Return what was done in the scope, and the usage of the named VPA.

    Raises:
        ConfigError: there is no such VPA, and no action on its pods is known.
    """
    reader, name = session.reader, arguments.subject
    components = Components(reader)
    async with asyncio.TaskGroup() as group:
        # The list of VPAs shows whether the person may know what happened to them.
        listing = group.create_task(
            reader.list(VPAS, label_selector=arguments.selector, needed=True)
        )
        acting = group.create_task(components.actions(namespace=reader.namespace, vpa=name))
        if name:
            group.create_task(components.overview(RECOMMENDER))  # finds it meanwhile
        reporting = group.create_task(
            reader.list(EVENTS.as_dicts(), field_selector=past_actions.EVENTS_OF_UPDATER)
        )
    vpas = [each for each in listing.result() or () if name in ("", each.metadata.name)]
    actions = [past_actions.of_updater(each) for each in acting.result() or ()]
    events = [
        found
        for each in reporting.result() or ()
        if (found := past_actions.of_event(each)) is not None
    ]
    merged = await _with_vpas(reader, past_actions.merged(actions, events))
    results = [each for each in merged if name in ("", each.vpa)]
    if arguments.selector:
        chosen = {(each.metadata.namespace, each.metadata.name) for each in vpas}
        results = [each for each in results if (each.namespace, each.vpa) in chosen]
    if not name:
        return results, ()
    if not vpas and not results:
        raise no_such_vpa(name, session.namespace)
    return results, [each for vpa in vpas for each in await _usage(reader, components, vpa)]


async def _with_vpas(reader: Reader, results: Sequence[HistoryResult]) -> Sequence[HistoryResult]:
    """Fill in the VPAs of pods that still run, which the reference's Events don't name."""
    if all(each.vpa is not None for each in results):
        return results
    known: Mapping[tuple[str, str | None], str] = {
        (facts.vpa.metadata.namespace, pod): facts.vpa.metadata.name
        for facts in (await read_fleet(reader, competitors=False)).facts()
        if not facts.controlled_by
        for group in facts.groups or ()
        for pod in group.names
    }
    return [
        each if each.vpa is not None else replace(each, vpa=known.get((each.namespace, each.pod)))
        for each in results
    ]


async def _usage(
    reader: Reader, components: Components, vpa: VerticalPodAutoscaler
) -> Sequence[ContainerHistory]:
    namespace, name = vpa.metadata.namespace, vpa.metadata.name
    async with asyncio.TaskGroup() as group:
        saved = group.create_task(reader.elsewhere(namespace).list(CHECKPOINTS))
        asking = group.create_task(components.vpas(namespace=namespace, name=name))
    summary = next(iter(asking.result() or ()), None)
    return list(usage_history(vpa, saved.result() or (), summary))


def _missing(
    results: Sequence[HistoryResult], usage: Sequence[ContainerHistory], name: str
) -> Iterator[str]:
    if not results:
        yield "no action of the updater is known"
    if name and not usage:
        yield f"no checkpoint of VPA {name} has usage"


def _show(
    results: Sequence[HistoryResult],
    usage: Sequence[ContainerHistory],
    arguments: argparse.Namespace,
    screen: Screen,
) -> None:
    headings = not arguments.no_headers
    done = [dict(_cells(each, arguments, wide=screen.is_wide)) for each in results]
    if done:
        screen.rows(done, _COLUMNS, headings=headings)
    if done and usage:
        screen.text("")
    if usage:
        used = [dict(_usage_cells(each, name)) for each in usage for name in (CPU, MEMORY)]
        screen.rows(used, headings=headings)
    for each in usage:
        screen.text("")
        screen.paragraph(_samples(each))


def _cells(
    result: HistoryResult, arguments: argparse.Namespace, *, wide: bool
) -> Iterator[tuple[str, str]]:
    """Yield headings and cells of a row; on a narrow screen the pod is a part of the last one."""
    yield ("TIME", "-" if result.time is None else stamp(result.time))
    if arguments.all_namespaces:
        yield ("NAMESPACE", result.namespace)
    yield ("VPA", result.vpa or "-")
    if wide:
        yield ("POD", result.pod or "-")
    yield ("ACTION", result.action)
    yield ("OUTCOME", _OUTCOMES.get(result.outcome or "-", result.outcome or "-"))
    about = "" if wide or result.pod is None else f"{result.pod}: "
    changes = result.changes.replace("->", "→")
    text = "; ".join(filter(None, (changes, result.message)))
    yield ("CHANGE" if wide else "", about + text)


def _usage_cells(container: ContainerHistory, resource: str) -> Iterator[tuple[str, str]]:
    found = container.cpu if resource == CPU else container.memory
    yield ("CONTAINER", container.container)
    yield ("RESOURCE", resource)
    for heading, amount in (
        ("P50", found.p50),
        ("P90", found.p90),
        ("P95", found.p95),
        ("P100", found.p100),
        ("TARGET", found.target),
    ):
        yield (heading, _amount(resource, amount))
    lower, upper = _amount(resource, found.lower_bound), _amount(resource, found.upper_bound)
    yield ("RANGE", "-" if found.target is None else f"{lower} … {upper}")
    yield ("", "")  # the last column may get lines of its own


def _amount(resource: str, amount: str | None) -> str:
    return "-" if amount is None else short(resource, amount)


def _samples(container: ContainerHistory) -> str:
    """Return the extent of a history as a sentence."""
    first, last = container.first_sample, container.last_sample
    period = ""
    if first is not None and last is not None:
        period = f" from {moment(first)} to {moment(last)}"
    parts = [f"Container {container.container}: {container.samples} CPU samples{period}"]
    weights = (container.cpu.weight, container.memory.weight)
    parts.append("total weight {} (cpu) and {} (memory)".format(*map(plain_number, weights)))
    if container.cpu.confidence is not None and container.memory.confidence is not None:
        confidences = (container.cpu.confidence, container.memory.confidence)
        parts.append("confidence {} (cpu) and {} (memory)".format(*map(plain_number, confidences)))
    if container.saved_at is not None:
        parts.append(f"saved at {moment(container.saved_at)}")
    return ", ".join(parts) + "."
