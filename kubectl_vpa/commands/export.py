"""``kubectl vpa export``: VPAs and their history, or recommendations for other tools."""

import argparse
import enum
from collections.abc import Iterable, Sequence
from typing import Any

from common.api.autoscaling import VerticalPodAutoscaler
from common.kube.endpoints import CHECKPOINTS, LIMIT_RANGES, VPAS, Endpoint
from common.target.controlling import target_key
from kubectl_vpa.arguments import ExitCode, Format, add_connection, add_output, add_scope, one_of
from kubectl_vpa.cluster.reader import Reader
from kubectl_vpa.cluster.templates import read_templates
from kubectl_vpa.commands.session import connected
from kubectl_vpa.judge.competitors import controlled_by_others
from kubectl_vpa.judge.exported_objects import exported, recommendations
from kubectl_vpa.judge.template_resources import WorkloadResources, workload_resources
from kubectl_vpa.output import formats, gitops
from kubectl_vpa.output.screen import Screen
from kubectl_vpa.results.lists import ResultList


class Form(enum.StrEnum):
    """The value of ``--as``."""

    OBJECTS = "objects"
    RECOMMENDATIONS = "recommendations"
    KUSTOMIZE = "kustomize"
    HELM = "helm"
    PATCH = "patch"


_FORMATS = (Format.YAML, Format.JSON, Format.CSV)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "--as",
        dest="form",
        metavar="FORM",
        type=one_of(Form),
        choices=tuple(Form),
        default=Form.OBJECTS,
        help="Print objects (VPAs and checkpoints), recommendations (one item for each container), "
        "or the recommended resources as a kustomize component, as Helm values or as "
        "strategic-merge patches: objects, recommendations, kustomize, helm, patch. "
        "Default: objects.",
    )
    add_scope(parser)
    add_output(parser, _FORMATS)
    add_connection(parser)


async def run(arguments: argparse.Namespace, screen: Screen) -> int:
    """Read and print; the exit code is 1 if something could not be read."""
    if arguments.output is Format.CSV and arguments.form is not Form.RECOMMENDATIONS:
        screen.error("-o csv needs --as recommendations")
        return ExitCode.USAGE
    async with connected(arguments, screen) as session:
        reader, missing = session.reader, list[str]()
        match arguments.form:
            case Form.OBJECTS:
                text = await _objects(reader, arguments)
            case Form.RECOMMENDATIONS:
                text = await _recommendations(reader, arguments)
            case _:
                text, missing = await _resources(reader, arguments)
    screen.finish_progress()
    screen.raw(text)
    screen.notes(missing, about="not exported")
    screen.notes(reader.notes)
    return ExitCode.FAILED if reader.notes else ExitCode.OK


async def _vpas(reader: Reader, arguments: argparse.Namespace) -> Sequence[VerticalPodAutoscaler]:
    found = await reader.list(VPAS, label_selector=arguments.selector, needed=True)
    return sorted(found or (), key=lambda each: (each.metadata.namespace, each.metadata.name))


async def _objects(reader: Reader, arguments: argparse.Namespace) -> str:
    vpas = await reader.list(VPAS.as_dicts(), label_selector=arguments.selector, needed=True)
    names = {_name(each) for each in vpas or ()}
    checkpoints = await reader.list(CHECKPOINTS.as_dicts())
    kept = [
        each
        for each in checkpoints or ()
        if not arguments.selector
        or (each["metadata"].get("namespace"), each.get("spec", {}).get("vpaObjectName")) in names
    ]
    return _documents([*_exported(VPAS, vpas or ()), *_exported(CHECKPOINTS, kept)], arguments)


def _exported(endpoint: Endpoint[Any], items: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        exported(endpoint.api_version, endpoint.kind, each) for each in sorted(items, key=_name)
    ]


def _name(item: dict[str, Any]) -> tuple[str, str]:
    return (item["metadata"].get("namespace", ""), item["metadata"]["name"])


async def _recommendations(reader: Reader, arguments: argparse.Namespace) -> str:
    items = tuple(recommendations(await _vpas(reader, arguments)))
    content = ResultList(kind="RecommendationList", items=items, notes=tuple(reader.notes))
    match arguments.output:
        case Format.CSV:
            return formats.as_csv(items, headings=not arguments.no_headers)
        case Format.JSON:
            return formats.as_json(content)
        case _:
            return formats.as_yaml(content)


async def _resources(reader: Reader, arguments: argparse.Namespace) -> tuple[str, list[str]]:
    """Return the text, and the VPAs that are missing in it with the reasons."""
    vpas = await _vpas(reader, arguments)
    templates = await read_templates(reader, vpas)
    limit_ranges = await reader.list(LIMIT_RANGES) or ()
    others = controlled_by_others(vpas)
    workloads, missing = list[WorkloadResources](), list[str]()
    for vpa in vpas:
        key, namespace = target_key(vpa), vpa.metadata.namespace
        if first := others.get((namespace, vpa.metadata.name)):
            missing.append(f"VPA {namespace}/{vpa.metadata.name}: VPA {first} has the same target")
            continue
        found = workload_resources(
            vpa,
            None if key is None else templates.get(key),
            [each.spec for each in limit_ranges if each.metadata.namespace == namespace],
        )
        if isinstance(found, str):
            missing.append(found)
        else:
            workloads.append(found)
    many = bool(arguments.all_namespaces)
    match arguments.form:
        case Form.KUSTOMIZE:
            documents = [gitops.kustomize_component(workloads, namespaces=many)]
        case Form.HELM:
            documents = [gitops.helm_values(workloads, namespaces=many)]
        case _:
            documents = list(gitops.patches(workloads))
    return _documents(documents, arguments), missing


def _documents(documents: Sequence[dict[str, Any]], arguments: argparse.Namespace) -> str:
    return formats.as_documents(documents, as_json=arguments.output is not Format.YAML)
