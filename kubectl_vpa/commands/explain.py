"""``kubectl vpa explain``: how each number of a recommendation is computed, with its curve."""

import argparse
import asyncio
from collections.abc import Iterator

from common.errors import ConfigError
from common.quantity import Quantity, QuantityError
from common.resources import CPU, MEMORY
from kubectl_vpa.arguments import (
    ExitCode,
    add_connection,
    add_namespace,
    add_text_output,
)
from kubectl_vpa.cluster.checkpoints import read_histories
from kubectl_vpa.cluster.components import Components
from kubectl_vpa.cluster.fleet import read_fleet
from kubectl_vpa.cluster.recommender_flags import counting, publishing, recommender_flags
from kubectl_vpa.commands.session import Session, connected
from kubectl_vpa.judge.computed_numbers import Requests, computed_vpa, usual_requests
from kubectl_vpa.judge.usage_model import StoredVpa, explained, usage_of
from kubectl_vpa.judge.vpa_status import VpaFacts
from kubectl_vpa.output import formats
from kubectl_vpa.output.amounts import plain_number, short
from kubectl_vpa.output.number_steps import steps_text
from kubectl_vpa.output.percentile_curve import ASCII, UNICODE, Mark, draw
from kubectl_vpa.output.screen import Column, Screen
from kubectl_vpa.output.times import moment
from kubectl_vpa.results.explain import (
    ComputedContainer,
    ComputedResource,
    ComputedVpa,
    NumberSource,
)
from kubectl_vpa.results.lists import ResultList

_DEFAULT_WIDTH = 80  # of a plot where the output is no terminal
_NAMES = {"target": "target", "lowerBound": "lower bound", "upperBound": "upper bound"}
_STYLES = {"target": "green", "lowerBound": "cyan", "upperBound": "magenta", "request": "yellow"}
_CAPTIONS = {
    CPU: "Share of the CPU usage that is within an amount:",
    MEMORY: "Share of the memory peaks that are within an amount:",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("subject", metavar="NAME", help="Explain the VPA with this name.")
    add_namespace(parser)
    add_text_output(parser)
    add_connection(parser)


async def run(arguments: argparse.Namespace, screen: Screen) -> int:
    """Read, compute and print."""
    async with connected(arguments, screen) as session:
        found = await _read(session, arguments.subject)
        notes = tuple(session.reader.notes)
    screen.finish_progress()
    content = ResultList(kind="ComputedVpaList", items=(found,), notes=notes)
    text = formats.for_programs(content, arguments.output)
    if text is not None:
        screen.raw(text)
    else:
        _print(found, screen)
    screen.notes(notes)
    return ExitCode.OK


async def _read(session: Session, name: str) -> ComputedVpa:
    """Return the recommender's explanation, or else that of the checkpoints.

    Raises:
        ConfigError: there is no such VPA, or a quantity of its policy can't be read.
    """
    reader, components = session.reader, Components(session.reader)
    async with asyncio.TaskGroup() as group:
        reading = group.create_task(read_fleet(reader, competitors=False))
        asking = group.create_task(components.vpa(session.namespace, name))
    (facts,) = reading.result().named(name, session.namespace)
    requests, detail = usual_requests(facts.groups), asking.result()
    if detail is not None and detail.explanation is not None:
        return computed_vpa(
            facts.vpa,
            detail.explanation,
            detail.containers,
            requests,
            source=NumberSource.RECOMMENDER,
            flags_of=None,
        )
    return await _computed(session, components, facts, requests)


async def _computed(
    session: Session, components: Components, facts: VpaFacts, requests: Requests
) -> ComputedVpa:
    vpa = facts.vpa
    flags = await recommender_flags(components, session.reader, (vpa,))
    histories = await read_histories(session.reader)
    stored = StoredVpa(vpa=vpa, pods=[each.pod for each in facts.groups or ()])
    usage = usage_of([stored], histories, session.now, counting(flags.settings))
    try:
        found = explained(usage, vpa, session.now, publishing(flags.settings))
    except QuantityError as error:
        raise ConfigError(f"the policy of VPA {vpa.metadata.name}: {error}") from error
    return computed_vpa(
        vpa,
        found.explanation,
        found.histograms,
        requests,
        source=NumberSource.CHECKPOINTS,
        flags_of=flags.pod or None,
    )


def _print(found: ComputedVpa, screen: Screen) -> None:
    screen.paragraph(
        f"VPA {found.namespace}/{found.name}: {found.workload_kind} {found.workload_name}, "
        f"mode {found.mode}",
        style="bold",
    )
    screen.paragraph(_origin(found))
    if found.held_up:
        screen.paragraph(f"Nothing is written at present: {found.held_up}.")
    if not found.containers:
        screen.paragraph("No usage is known, so nothing is recommended.")
    for container in found.containers:
        screen.text("")
        screen.paragraph(_history(container), style="bold")
        for resource in container.resources:
            if resource.numbers:
                screen.text("")
                _print_resource(resource, screen)


def _origin(found: ComputedVpa) -> str:
    if found.source is NumberSource.RECOMMENDER:
        return "As the recommender computed it."
    if found.flags_of is None:
        return "Computed from the checkpoints, with the defaults of the recommender's flags."
    return f"Computed from the checkpoints, with the flags of pod {found.flags_of}."


def _history(container: ComputedContainer) -> str:
    name = f"Container {container.container}"
    if container.excluded is not None:
        return f"{name}: no recommendation, {container.excluded}"
    if container.first_sample is None or container.last_sample is None:
        return f"{name}: no samples of CPU"
    first, last = moment(container.first_sample), moment(container.last_sample)
    return f"{name}: {container.samples} samples of CPU, from {first} to {last}"


def _print_resource(resource: ComputedResource, screen: Screen) -> None:
    columns = (Column(resource.resource.upper()), Column("VALUE", right=True), Column("STEPS"))
    screen.table(columns, list(_rows(resource)), headings=True)
    marks = list(_marks(resource))
    if resource.curve and marks:
        glyphs = UNICODE if screen.is_unicode else ASCII
        width = screen.width or _DEFAULT_WIDTH
        screen.text("")
        screen.paragraph(_CAPTIONS[resource.resource], style="dim")
        screen.lines(draw(resource.curve, marks, width=width, glyphs=glyphs))


def _rows(resource: ComputedResource) -> Iterator[tuple[str, str, str]]:
    name = resource.resource
    for number in resource.numbers:
        if number.amount in _NAMES:
            value = "-" if number.value is None else short(name, number.value)
            yield (_NAMES[number.amount], value, steps_text(name, number))
    if resource.request is None:
        yield ("request", "none", "no pod, or none requests it")
    else:
        yield ("request", short(name, resource.request), "of most pods at present")
    if resource.confidence is not None:
        yield ("history", plain_number(resource.confidence), "confidence intervals")


def _marks(resource: ComputedResource) -> Iterator[Mark]:
    """Yield the amounts to mark on the curve, equal ones as one; the target comes first."""
    name = resource.resource
    values = {each.amount: each.value for each in resource.numbers if each.amount in _NAMES}
    values["request"] = resource.request
    labels: dict[str, list[str]] = {}
    for amount, value in values.items():
        if value is not None:
            labels.setdefault(value, []).append(amount)
    for value, amounts in labels.items():
        names = ", ".join(_NAMES.get(each, each) for each in amounts)
        yield Mark(
            f"{names} {short(name, value)}",
            _units(name, value),
            _STYLES[amounts[0]],
            is_scaled=amounts[0] == "target",
        )


def _units(resource: str, quantity: str) -> int:
    parsed = Quantity.parse(quantity)
    return parsed.milli if resource == CPU else parsed.value
