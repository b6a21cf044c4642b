"""``kubectl vpa why``: the state of one object in sentences, and what to do about it."""

import argparse
import asyncio

from kubectl_vpa.arguments import (
    ExitCode,
    add_connection,
    add_namespace,
    add_text_output,
)
from kubectl_vpa.cluster.components import Components
from kubectl_vpa.cluster.fleet import read_fleet
from kubectl_vpa.cluster.subject import events_of, find
from kubectl_vpa.commands.session import connected
from kubectl_vpa.judge.explanation import explain, without_vpa
from kubectl_vpa.judge.findings import RECOMMENDER
from kubectl_vpa.judge.vpa_status import judge_vpa
from kubectl_vpa.output import formats
from kubectl_vpa.output.screen import Screen
from kubectl_vpa.results.lists import ResultList
from kubectl_vpa.results.why import Explanation


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "subject",
        metavar="NAME",
        help="Explain this VPA, pod or workload: a name, or KIND/NAME such as pod/web-1.",
    )
    add_namespace(parser)
    add_text_output(parser)
    add_connection(parser)


async def run(arguments: argparse.Namespace, screen: Screen) -> int:
    """Read, explain and print."""
    async with connected(arguments, screen) as session:
        reader = session.reader
        components = Components(reader)
        async with asyncio.TaskGroup() as group:
            viewing = group.create_task(components.view(now=session.now))
            reading = group.create_task(read_fleet(reader))
            group.create_task(components.overview(RECOMMENDER))  # finds it meanwhile
        fleet, view = reading.result(), viewing.result()
        subject = await find(reader, fleet, arguments.subject)
        named = f"{subject.kind} {session.namespace}/{subject.name}"
        if subject.facts is None:
            found = without_vpa(named, subject.problem)
        else:
            status = view.refine(judge_vpa(subject.facts, now=session.now), subject.facts)
            events = await events_of(reader, subject)
            known = await components.vpas(namespace=status.namespace, name=status.name) or ()
            found = explain(named, status, events=events, summary=next(iter(known), None))
        notes = tuple(reader.notes)
    screen.finish_progress()
    content = ResultList(kind="ExplanationList", items=(found,), notes=notes)
    text = formats.for_programs(content, arguments.output)
    if text is not None:
        screen.raw(text)
    else:
        _print(found, screen)
    screen.notes(notes)
    return ExitCode.OK


def _print(found: Explanation, screen: Screen) -> None:
    state = "not controlled" if found.status is None else found.status.state
    screen.paragraph(f"{found.subject}: {state}", style="bold")
    text = " ".join(filter(None, (found.wanted, found.because, found.remedy)))
    screen.paragraph(text)
    if found.history:
        screen.text("")
        screen.paragraph(found.history)
    if found.command:
        screen.text(f"\n    {found.command}")
    for each in found.events:
        screen.text("")
        screen.paragraph(f"{each.time} {each.reason}: {each.message}", style="dim")
