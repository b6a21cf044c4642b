"""``kubectl vpa simulate``: what the numbers would be with other settings."""

import argparse
import asyncio
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from common.flags import add_flag, groups, show
from common.vpa_creation.policy import CreationPolicy, SettingError, parse_policy
from kubectl_vpa.arguments import (
    ExitCode,
    Format,
    add_bounds,
    add_connection,
    add_output,
    add_scope,
    add_vpa,
    given_settings,
)
from kubectl_vpa.cluster.checkpoints import read_histories
from kubectl_vpa.cluster.components import Components
from kubectl_vpa.cluster.fleet import read_fleet
from kubectl_vpa.cluster.reader import Reader
from kubectl_vpa.cluster.recommender_flags import counting, publishing, recommender_flags
from kubectl_vpa.commands.session import Session, connected
from kubectl_vpa.judge.simulation import (
    deviating,
    simulated_numbers,
    totals,
    with_policy,
)
from kubectl_vpa.judge.usage_model import StoredVpa, recommended, usage_of
from kubectl_vpa.judge.vpa_status import VpaFacts
from kubectl_vpa.output import formats
from kubectl_vpa.output.amounts import percent, short
from kubectl_vpa.output.screen import Column, Screen
from kubectl_vpa.results.simulate import (
    NowAndSimulated,
    SimulatedNumbers,
    SimulatedTotal,
    SimulationList,
)
from recommender.recommendation_flags import RecommendationFlags

_FORMATS = (Format.TABLE, Format.JSON, Format.YAML, Format.CSV)
_COLUMNS = tuple(Column(each, right=True) for each in ("CHANGE", "PODS", "ALL PODS"))
_NO_CHANGE = (
    "name a setting to change, such as --target-cpu-percentile=0.95 or --max-allowed=memory=2Gi"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Changes:
    flags: Mapping[str, Any]  # by the name of the field
    policy: CreationPolicy | None  # None: policies stay as they are
    shown: Mapping[str, str]  # as on the command line


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command; the flags are the recommender's own."""
    add_vpa(parser)
    for title, fields in groups(RecommendationFlags).items():
        group = parser.add_argument_group(f"{title} (the recommender's flags)")
        for each in fields:
            add_flag(group, each, default=argparse.SUPPRESS, help=each.metadata["help"])
    add_bounds(parser.add_argument_group("Policies of all containers"))
    add_scope(parser)
    add_output(parser, _FORMATS)
    add_connection(parser)


async def run(arguments: argparse.Namespace, screen: Screen) -> int:
    """Read, compute twice and print."""
    try:
        changes = _changes(arguments)
    except SettingError as error:
        screen.error(f"--{error.setting}: {error.problem}")
        return ExitCode.USAGE
    if not changes.shown:
        screen.error(_NO_CHANGE)
        return ExitCode.USAGE
    async with connected(arguments, screen) as session:
        found = await _simulate(session, arguments, changes)
    screen.finish_progress()
    results = [each for each in found.items if isinstance(each, SimulatedNumbers)]
    text = formats.for_programs(found, arguments.output, headings=not arguments.no_headers)
    if text is not None:
        screen.raw(text)
    elif not results:
        screen.notes(("no VPA with stored history",), about="nothing found")
    else:
        _show(results, arguments, screen)
        screen.text("")
        for total in found.totals:
            screen.paragraph(_sum(total))
    screen.notes(found.notes)
    return ExitCode.OK


def _changes(arguments: argparse.Namespace) -> _Changes:
    """Return the settings that the arguments change.

    Raises:
        SettingError: a setting of the policies is invalid.
    """
    given = vars(arguments)
    declared = [each for fields in groups(RecommendationFlags).values() for each in fields]
    flags = {each.name: given[each.name] for each in declared if each.name in given}
    settings = given_settings(arguments)
    return _Changes(
        flags=flags,
        policy=parse_policy(settings) if settings else None,
        shown={
            **{
                each.metadata["flag"]: show(given[each.name])
                for each in declared
                if each.name in given
            },
            **{f"--{name}": text for name, text in settings.items()},
        },
    )


async def _simulate(
    session: Session, arguments: argparse.Namespace, changes: _Changes
) -> SimulationList:
    """Return the numbers of the chosen VPAs.

    Raises:
        ConfigError: there is no such VPA, or settings contradict each other.
    """
    reader = session.reader
    async with asyncio.TaskGroup() as group:
        reading = group.create_task(
            read_fleet(reader, label_selector=arguments.selector, competitors=False)
        )
        histories = group.create_task(read_histories(reader))
    found = reading.result().named(arguments.subject, session.namespace)
    chosen = list(_controlling(found, reader))
    vpas = [each.vpa for each in chosen]
    flags = await recommender_flags(Components(reader), reader, vpas)
    other = dataclasses.replace(flags.settings, **changes.flags)
    present = [
        StoredVpa(vpa=one.vpa, pods=[each.pod for each in one.groups or ()]) for one in chosen
    ]
    stored, at, count = histories.result(), session.now, counting(flags.settings)
    usage = usage_of(present, stored, at, count)
    now = recommended(usage, vpas, at, publishing(flags.settings))
    if (policy := changes.policy) is not None:
        vpas = [with_policy(each, policy) for each in vpas]
        changed = [
            dataclasses.replace(each, vpa=vpa) for each, vpa in zip(present, vpas, strict=True)
        ]
        usage = usage_of(changed, stored, at, count)
    simulated = recommended(usage, vpas, at, publishing(other))
    results = sorted(
        simulated_numbers(chosen, now, simulated),
        key=lambda each: (each.namespace, each.name, each.container),
    )
    for meta in (vpa.metadata for vpa in vpas):
        if (meta.namespace, meta.name) not in usage.autoscalers:
            reader.note(f"VPA {meta.namespace}/{meta.name}: its policy is invalid")
    if differing := deviating(chosen, now):
        reader.note(
            "VPAs whose targets differ from those of their checkpoints by more than 5 percent: "
            f"{differing} (newer usage, or other flags)"
        )
    return SimulationList(
        kind="SimulationList",
        items=tuple(results),
        notes=tuple(reader.notes),
        settings=changes.shown,
        flags_of=flags.pod or None,
        totals=totals(results),
    )


def _controlling(facts: Sequence[VpaFacts], reader: Reader) -> Iterator[VpaFacts]:
    """Yield the VPAs that control their pods; a note names each of the others."""
    for each in facts:
        if each.controlled_by:
            vpa = each.vpa.metadata
            name = f"VPA {vpa.namespace}/{vpa.name}"
            reader.note(f"{name}: VPA {each.controlled_by} controls its pods")
        else:
            yield each


def _show(
    results: Sequence[SimulatedNumbers], arguments: argparse.Namespace, screen: Screen
) -> None:
    everywhere, wide = arguments.all_namespaces, screen.is_wide
    rows = [dict(_cells(each, everywhere=everywhere, wide=wide)) for each in results]
    screen.rows(rows, _COLUMNS, headings=not arguments.no_headers)


def _cells(result: SimulatedNumbers, *, everywhere: bool, wide: bool) -> Iterator[tuple[str, str]]:
    """Yield headings and cells of a row."""
    resource = result.resource
    if everywhere and wide:
        yield ("NAMESPACE", result.namespace)
    yield ("VPA", f"{result.namespace}/{result.name}" if everywhere and not wide else result.name)
    yield ("CONTAINER", result.container)
    yield ("RESOURCE", resource)
    yield ("TARGET", _both(resource, result.target))
    yield ("CHANGE", percent(result.change))
    if wide:
        yield ("LOWER BOUND", _both(resource, result.lower_bound))
        yield ("UPPER BOUND", _both(resource, result.upper_bound))
    yield ("PODS", "-" if result.pods is None else str(result.pods))
    yield ("ALL PODS", "-" if result.difference is None else _signed(resource, result.difference))
    yield ("", "")  # the last column may get lines of its own


def _both(resource: str, amounts: NowAndSimulated) -> str:
    """Return ``586m → 613m``, or one amount if both are equal."""
    both = (amounts.now, amounts.simulated)
    now, then = ("none" if each is None else short(resource, each) for each in both)
    return now if now == then else f"{now} → {then}"


def _signed(resource: str, difference: str) -> str:
    amount = short(resource, difference.removeprefix("-"))
    if amount == "0":
        return "0"
    return f"{'-' if difference.startswith('-') else '+'}{amount}"


def _sum(total: SimulatedTotal) -> str:
    """Return the sum over all pods in words."""
    resource = total.resource
    amount = short(resource, total.difference.removeprefix("-"))
    targets = _both(resource, NowAndSimulated(now=total.now, simulated=total.simulated))
    text = f"{resource} of all pods: {targets}"
    if total.now == total.simulated:
        return f"{text}, unchanged"
    effect = "would be given back" if total.difference.startswith("-") else "more would be needed"
    return f"{text} ({percent(total.change)}): {amount} {effect}"
