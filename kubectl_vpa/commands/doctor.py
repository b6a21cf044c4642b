"""``kubectl vpa doctor``: checks of the installation and of all VPAs, with remedies."""

import argparse
import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from common.kube.endpoints import CHECKPOINTS, VPAS, Endpoint
from kubectl_vpa.arguments import ExitCode, Format, add_connection, add_output
from kubectl_vpa.cluster import installation
from kubectl_vpa.cluster.dry_run import try_webhook
from kubectl_vpa.cluster.fleet import read_fleet
from kubectl_vpa.commands.session import Session, connected
from kubectl_vpa.judge import installation_checks, workload_checks
from kubectl_vpa.judge.findings import Check, Facts, skipped
from kubectl_vpa.judge.vpa_status import judge_vpa
from kubectl_vpa.output import formats
from kubectl_vpa.output.screen import Column, Screen
from kubectl_vpa.results.doctor import Finding, Severity
from kubectl_vpa.results.lists import ResultList

_FORMATS = (Format.TABLE, Format.JSON, Format.YAML, Format.CSV)
_STYLES: Mapping[str, str] = {
    Severity.ERROR: "red",
    Severity.WARNING: "yellow",
    Severity.SKIPPED: "dim",
    Severity.OK: "green",
}
_CODES = {Severity.ERROR: ExitCode.FAILED, Severity.WARNING: ExitCode.WARNING}
_ORDER = tuple(Severity)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    group = parser.add_argument_group("scope")
    group.add_argument(
        "-n",
        "--namespace",
        metavar="NAME",
        default="",
        help="Check the VPAs of this namespace only. Default: all.",
    )
    group.add_argument(
        "--no-dry-run",
        dest="dry_run",
        action="store_false",
        help="Don't create a pod in a dry run.",
    )
    add_output(parser, _FORMATS)
    add_connection(parser)


async def run(arguments: argparse.Namespace, screen: Screen) -> int:
    """Read, check and print."""
    async with connected(arguments, screen, all_namespaces=not arguments.namespace) as session:
        facts = await read_facts(session, dry_run=arguments.dry_run)
        notes = tuple(session.reader.notes)
    screen.finish_progress()
    findings = sorted(find(facts), key=lambda each: _ORDER.index(each.severity))
    _print(findings, notes, arguments, screen)
    screen.notes(notes)
    worst = min((each.severity for each in findings), key=_ORDER.index)
    return _CODES.get(worst, ExitCode.OK)


def find(facts: Facts) -> Iterator[Finding]:
    """Yield the findings of all checks; those of VPAs are skipped if there can be none."""
    checks: tuple[Check, ...] = installation_checks.CHECKS
    for check in checks:
        yield from check(facts)
    if facts.served is not None and VPAS.resource not in facts.served:
        yield skipped("vpas", "the API server doesn't serve them, so none was checked")
        return
    for check in workload_checks.CHECKS:
        yield from check(facts)


async def read_facts(session: Session, *, dry_run: bool) -> Facts:
    """Read everything that the checks need."""
    reader = session.reader
    served = await installation.served_resources(reader, VPAS.group, VPAS.version)

    def serves(endpoint: Endpoint[Any]) -> bool:
        return served is None or endpoint.resource in served

    async with asyncio.TaskGroup() as group:
        fleet_task = group.create_task(read_fleet(reader)) if serves(VPAS) else None
        minor = group.create_task(installation.cluster_minor(reader))
        core = group.create_task(installation.served_resources(reader, "", "v1"))
        usage = group.create_task(installation.usage_times(reader))
        pods_task = group.create_task(installation.component_pods(reader))
        webhooks_task = group.create_task(installation.registered_webhooks(reader))
        quotas = group.create_task(installation.read_quotas(reader))
        checkpoints = (
            group.create_task(installation.read_checkpoints(reader))
            if serves(CHECKPOINTS)
            else None
        )
    pods, webhooks = pods_task.result(), webhooks_task.result()
    fleet = None if fleet_task is None else fleet_task.result()
    vpas = () if fleet is None else tuple(fleet.facts())
    times, metrics_error = usage.result()
    core_resources = core.result()
    bare: Any = None if fleet is None or fleet.pods is None else fleet.pods.without_controller
    return Facts(
        now=session.now,
        minor=minor.result(),
        served=served,
        resize_served=None if core_resources is None else "pods/resize" in core_resources,
        metrics=times,
        metrics_error=metrics_error,
        components=pods,
        leases=await installation.component_leases(reader, pods) if pods else None,
        denied=await installation.denied_permissions(reader, pods) if pods else None,
        webhooks=webhooks,
        dry_run=await try_webhook(reader, vpas) if dry_run else None,
        certificates=await installation.serving_certificates(reader, webhooks or ()),
        vpas=vpas,
        results=[judge_vpa(each, now=session.now) for each in vpas],
        hpas_seen=fleet is not None and fleet.hpas_seen,
        bare_pods=bare,
        quotas=quotas.result(),
        checkpoints=None if checkpoints is None else checkpoints.result(),
    )


def _print(
    findings: Sequence[Finding],
    notes: Sequence[str],
    arguments: argparse.Namespace,
    screen: Screen,
) -> None:
    headings = not arguments.no_headers
    content = ResultList(kind="FindingList", items=tuple(findings), notes=tuple(notes))
    text = formats.for_programs(content, arguments.output, headings=headings)
    if text is not None:
        screen.raw(text)
        return
    rows = [dict(_cells(each)) for each in findings]
    screen.rows(rows, (Column("RESULT", styles=_STYLES),), headings=headings)


def _cells(finding: Finding) -> Iterator[tuple[str, str]]:
    """Yield headings and cells of a row."""
    about = f"{finding.about}: " if finding.about else ""
    remedy = f". Remedy: {finding.remedy}" if finding.remedy else ""
    yield ("RESULT", finding.severity)
    yield ("CHECK", finding.check)
    yield ("FINDING", f"{about}{finding.message.rstrip('.')}{remedy}")
