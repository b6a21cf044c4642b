"""``kubectl vpa create``: VPAs for all workloads that have none."""

import argparse
import asyncio
import enum
from collections.abc import Sequence
from typing import Any

import msgspec

from common.errors import DecodeError, KubeError
from common.kube.endpoints import HPAS, VPAS
from common.labels import NOTHING, LabelSelectorError, Selector, parse_selector
from common.recommendation.policy import ControlledValues
from common.target.horizontal import hpas_by_target
from common.vpa_creation.new_vpas import (
    CREATED_BY,
    NAME_PATTERN,
    Creator,
    NewVpa,
    SkippedWorkload,
    is_name_pattern,
    new_vpas,
)
from common.vpa_creation.policy import (
    MODES,
    CreationPolicy,
    SettingError,
    parse_policy,
)
from kubectl_vpa.arguments import (
    ExitCode,
    Format,
    add_bounds,
    add_connection,
    add_output,
    add_scope,
    given_settings,
    one_of,
)
from kubectl_vpa.cluster.listed_workloads import list_workloads
from kubectl_vpa.commands.session import Session, connected
from kubectl_vpa.judge.selected_workloads import (
    Exclusion,
    candidates,
    conflict_message,
    named,
    namespaces_left_out,
    skip_message,
)
from kubectl_vpa.output import formats
from kubectl_vpa.output.screen import Screen

_FORMATS = (Format.YAML, Format.JSON)


class DryRun(enum.StrEnum):
    """The value of ``--dry-run``."""

    SERVER = "server"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_scope(parser, selects="Use workloads")
    _add_selection(parser)
    _add_policy(parser)
    group = parser.add_argument_group("creation")
    group.add_argument(
        "--apply", action="store_true", help="Create the VPAs, and print a line for each of them."
    )
    group.add_argument(
        "--dry-run",
        metavar="server",
        type=one_of(DryRun),
        choices=tuple(DryRun),
        help="server: let the API server check the VPAs as --apply does, and store nothing.",
    )
    add_output(parser, _FORMATS, tables=False)
    add_connection(parser)


def _add_selection(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("exclusion")
    group.add_argument(
        "--exclude",
        metavar="NAME",
        action="append",
        default=[],
        help="Leave out workloads with this name, or KIND/NAME; * stands for any text. Can be "
        "repeated.",
    )
    group.add_argument(
        "--exclude-selector",
        metavar="SELECTOR",
        type=_selector,
        default=NOTHING,
        help="Leave out workloads with these labels.",
    )


def _add_policy(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("policy")
    group.add_argument(
        "--mode",
        choices=tuple(map(str, MODES)),
        metavar="MODE",
        help=f"Set the update mode: {', '.join(MODES)}. Default: Off, which recommends and changes "
        "no pod.",
    )
    add_bounds(group)
    group.add_argument(
        "--controlled-values",
        choices=tuple(map(str, ControlledValues)),
        metavar="VALUES",
        help=f"Change {' or '.join(ControlledValues)}. Default: RequestsAndLimits.",
    )
    group.add_argument(
        "--min-replicas",
        metavar="COUNT",
        help="Evict pods only of workloads with at least so many replicas. Default: that of the "
        "updater.",
    )
    group.add_argument(
        "--name",
        metavar="PATTERN",
        type=_name_pattern,
        default=NAME_PATTERN,
        help="Name the VPAs by this pattern, in which {name} and {kind} are those of the workload. "
        "Default: {name}. A name that is taken gets the kind at its end.",
    )


async def run(arguments: argparse.Namespace, screen: Screen) -> int:
    """Read, decide, and print or create; the exit code is 1 if a VPA could not be created."""
    creates = arguments.apply or arguments.dry_run is not None
    if creates and arguments.output is not _FORMATS[0]:
        screen.error(f"-o {arguments.output} can't be combined with --apply and --dry-run")
        return ExitCode.USAGE
    try:
        policy = parse_policy(given_settings(arguments))
    except SettingError as error:
        screen.error(f"--{error.setting}: {error.problem}")
        return ExitCode.USAGE
    failed = list[str]()
    async with connected(arguments, screen) as session:
        new, skipped, left_out = await _decide(session, arguments, policy)
        screen.finish_progress()
        messages = dict.fromkeys(map(skip_message, skipped))
        screen.notes(filter(None, messages), about="skipped")
        screen.notes(left_out, about="skipped")
        screen.notes(filter(None, map(conflict_message, new)), about="warning")
        if creates:
            failed = await _create(session, new, dry_run=arguments.dry_run is DryRun.SERVER)
        else:
            _print(new, session, arguments)
    if not new:
        screen.notes(("no workload without a VPA was found",), about="nothing to create")
    screen.notes(failed, about="not created")
    screen.notes(session.reader.notes)
    return ExitCode.FAILED if failed else ExitCode.OK


async def _decide(
    session: Session, arguments: argparse.Namespace, policy: CreationPolicy
) -> tuple[Sequence[NewVpa], Sequence[SkippedWorkload], Sequence[str]]:
    """Return new VPAs, skipped workloads, and a message for each namespace that is left out."""
    reader = session.reader
    async with asyncio.TaskGroup() as group:
        reading_vpas = group.create_task(reader.list(VPAS, needed=True))
        reading_hpas = group.create_task(reader.list(HPAS))
        listing = group.create_task(list_workloads(reader, label_selector=arguments.selector))
    listed = listing.result()
    left_out = namespaces_left_out(listed) if arguments.all_namespaces else frozenset[str]()
    exclusion = Exclusion(patterns=arguments.exclude, selector=arguments.exclude_selector)
    found = tuple(candidates(listed, exclusion))
    namespaces = {each.workload.namespace for each in found}
    results = tuple(
        new_vpas(
            found,
            reading_vpas.result() or (),
            hpas_by_target(reading_hpas.result() or ()),
            dict.fromkeys(namespaces - left_out, policy),
            creator=Creator.COMMAND,
            pattern=arguments.name,
        )
    )
    return (
        [each for each in results if isinstance(each, NewVpa)],
        [each for each in results if isinstance(each, SkippedWorkload)],
        [f"namespace {name}: choose it with -n" for name in sorted(namespaces & left_out)],
    )


async def _create(session: Session, new: Sequence[NewVpa], *, dry_run: bool) -> list[str]:
    """Create the VPAs one by one; return a message for each that the API server refused."""
    failed = []
    suffix = " (server dry run)" if dry_run else ""
    for each in new:
        meta = each.vpa.metadata
        try:
            await session.client.create(
                VPAS.as_dicts(), _manifest(each), namespace=meta.namespace, dry_run=dry_run
            )
        except (KubeError, DecodeError) as error:
            failed.append(f"VPA {meta.namespace}/{meta.name}: {error}")
        else:
            session.screen.text(
                f"VPA {meta.namespace}/{meta.name} created for {named(each.workload)}{suffix}"
            )
    return failed


def _print(new: Sequence[NewVpa], session: Session, arguments: argparse.Namespace) -> None:
    screen, as_json = session.screen, arguments.output is Format.JSON
    if new and not as_json:
        scope = "-A" if arguments.all_namespaces else f"-n {session.namespace}"
        screen.raw(f"# Undo: kubectl delete vpa {scope} -l {CREATED_BY}={Creator.COMMAND}\n")
    screen.raw(formats.as_documents([_manifest(each) for each in new], as_json=as_json))


def _manifest(new: NewVpa) -> dict[str, Any]:
    content: dict[str, Any] = msgspec.to_builtins(new.vpa)
    return {"apiVersion": VPAS.api_version, "kind": VPAS.kind, **content}


def _selector(text: str) -> Selector:
    try:
        return parse_selector(text)
    except LabelSelectorError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _name_pattern(text: str) -> str:
    if not is_name_pattern(text):
        raise argparse.ArgumentTypeError(
            f"{text!r} has no {{name}}, or other characters than a-z, 0-9, - and ."
        )
    return text
