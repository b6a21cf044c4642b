"""``kubectl vpa report``: requests and recommendations of all workloads, and what differs."""

import argparse
import enum
from collections.abc import Sequence

from common.errors import ConfigError, VpaError
from common.flags import argument_type, number
from common.kube import config
from common.runtime.clock import SystemClock
from kubectl_vpa.arguments import ExitCode, Format, add_output, add_scope
from kubectl_vpa.cluster.prometheus_flags import add_prometheus, prometheus_settings
from kubectl_vpa.cluster.recommendation_sources import recommendations
from kubectl_vpa.cluster.workloads import read_workloads
from kubectl_vpa.commands.session import KUBECTLS_CONFIG, connected, first_error
from kubectl_vpa.judge import report_totals
from kubectl_vpa.judge.workload_report import WorkloadFacts, report_workload, why_not_recommended
from kubectl_vpa.output import formats, report_page, report_table
from kubectl_vpa.output.screen import Screen
from kubectl_vpa.results.report import Prices, Report, Source, WorkloadReport

_FORMATS = (
    *(Format.TABLE, Format.WIDE, Format.JSON, Format.YAML, Format.CSV),
    *(Format.MARKDOWN, Format.HTML),
)
_WITHOUT = ("containers",)  # a row of CSV has no room for them


class From(enum.StrEnum):
    """The value of ``--from``."""

    AUTO = "auto"
    VPAS = "vpas"
    CHECKPOINTS = "checkpoints"
    PROMETHEUS = "prometheus"


_SOURCES = {
    From.AUTO: (Source.VPA, Source.CHECKPOINTS, Source.PROMETHEUS),
    From.VPAS: (Source.VPA,),
    From.CHECKPOINTS: (Source.CHECKPOINTS,),
    From.PROMETHEUS: (Source.PROMETHEUS,),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "--from",
        dest="source",
        metavar="SOURCE",
        choices=tuple(map(str, From)),
        default=str(From.AUTO),
        help="Take recommendations from vpas (their status), checkpoints, prometheus, or auto: the "
        "first of these that has one for a workload. Estimates are those that the recommender "
        "makes with the defaults of its flags. Default: auto.",
    )
    group = parser.add_argument_group("prices")
    for resource, unit in (("cpu", "core"), ("memory", "GiB")):
        group.add_argument(
            f"--{resource}-price",
            metavar="PRICE",
            type=argument_type(number(least=0)),
            help=f"Calculate costs with this price of a {unit} for an hour.",
        )
    group.add_argument(
        "--currency", metavar="TEXT", default="", help="Print this currency with costs."
    )
    add_scope(parser, selects="Use pods")
    add_output(parser, _FORMATS)
    connection = parser.add_argument_group("cluster")
    connection.add_argument("--kubeconfig", metavar="FILE", default="", help="Use this kubeconfig.")
    which = connection.add_mutually_exclusive_group()
    which.add_argument(
        "--context",
        dest="contexts",
        metavar="NAME",
        action="append",
        default=[],
        help="Use this context of the kubeconfig. Give the option several times for one report on "
        "several clusters.",
    )
    which.add_argument(
        "--all-contexts", action="store_true", help="Use all contexts of the kubeconfig."
    )
    add_prometheus(parser)


async def run(arguments: argparse.Namespace, screen: Screen) -> int:
    """Read, compare and print; the exit code is 1 if something could not be read."""
    contexts = await _contexts(arguments)
    if problem := _problem(arguments, contexts):
        screen.error(problem)
        return ExitCode.USAGE
    found, notes = list[WorkloadReport](), list[str]()
    for context in contexts:
        try:
            workloads, missing = await _read(arguments, context, screen)
        except* VpaError as errors:
            if len(contexts) == 1:
                raise
            notes.append(f"context {context}: {first_error(errors)}")
        else:
            found += workloads
            several = len(contexts) > 1
            notes += [f"context {context}: {each}" if several else each for each in missing]
    screen.finish_progress()
    report = _report(found, notes, arguments, contexts)
    _print(report, arguments, screen)
    screen.notes(notes)
    return ExitCode.FAILED if notes else ExitCode.OK


async def _contexts(arguments: argparse.Namespace) -> Sequence[str]:
    """Return the names of the contexts; an empty one in a pod.

    Raises:
        ConfigError: a kubeconfig is broken, or it has no context.
    """
    if arguments.contexts:
        return tuple(dict.fromkeys(arguments.contexts))
    every, current = await config.contexts(arguments.kubeconfig, default=KUBECTLS_CONFIG)
    if not arguments.all_contexts:
        return (current,)
    if not every:
        raise ConfigError("--all-contexts needs a kubeconfig with contexts")
    return every


def _problem(arguments: argparse.Namespace, contexts: Sequence[str]) -> str:
    """Return why the arguments can't be used together; empty if they can."""
    if arguments.source == From.PROMETHEUS and not arguments.prometheus_address:
        return "--from=prometheus needs --prometheus-address"
    if arguments.prometheus_address and len(contexts) > 1:
        return "--prometheus-address has the usage of one cluster: use one --context with it"
    return ""


async def _read(
    arguments: argparse.Namespace, context: str, screen: Screen
) -> tuple[Sequence[WorkloadReport], Sequence[str]]:
    """Return the workloads of one context, and what could not be seen.

    Raises:
        VpaError: the context can't be used, or its pods can't be read.
    """
    sources = set(_SOURCES[From(arguments.source)])
    if not arguments.prometheus_address:
        sources.discard(Source.PROMETHEUS)
    async with connected(arguments, screen, context=context) as session:
        workloads = await read_workloads(session.reader, label_selector=arguments.selector)
        settings = prometheus_settings(arguments)
        known = await recommendations(session.reader, workloads.found, sources, settings)
        found = []
        for each in workloads.found:
            key, recommended = each.controller.key, known.get(each.controller)
            facts = WorkloadFacts(
                context=context,
                key=key,
                groups=each.groups,
                vpa=each.vpa,
                recommending=None if recommended is None else recommended.vpa,
                source=Source.NONE if recommended is None else recommended.source,
                message=why_not_recommended(key, each.vpa, sources),
                limit_ranges=workloads.limit_ranges.get(key[0], ()),
            )
            found.append(report_workload(facts))
        return found, tuple(session.reader.notes)


def _report(
    found: Sequence[WorkloadReport],
    notes: Sequence[str],
    arguments: argparse.Namespace,
    contexts: Sequence[str],
) -> Report:
    prices = _prices(arguments)
    ordered = report_totals.in_order(found, prices)
    return Report(
        kind="Report",
        items=tuple(report_totals.with_cost(each, prices) for each in ordered),
        notes=tuple(notes),
        time=SystemClock().now(),
        contexts=tuple(contexts),
        prices=prices,
        totals=report_totals.totals_by_namespace(found, prices),
        total=report_totals.total_of(found, prices),
    )


def _prices(arguments: argparse.Namespace) -> Prices | None:
    cpu, memory = arguments.cpu_price, arguments.memory_price
    if cpu is None and memory is None:
        return None
    return Prices(cpu=cpu, memory=memory, currency=arguments.currency)


def _print(report: Report, arguments: argparse.Namespace, screen: Screen) -> None:
    headings = not arguments.no_headers
    text = formats.for_programs(report, arguments.output, headings=headings, without=_WITHOUT)
    match arguments.output:
        case _ if text is not None:
            screen.raw(text)
        case Format.MARKDOWN:
            screen.raw(report_table.as_markdown(report))
        case Format.HTML:
            screen.raw(report_page.as_html(report))
        case _:
            wide = arguments.output is Format.WIDE
            report_table.show(report, screen, wide=wide, headings=headings)
            if not report.items:
                screen.notes(("no pods",), about="nothing found")
