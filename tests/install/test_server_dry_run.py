"""A real API server accepts every object of every option, by ``kubectl apply --dry-run=server``.

The namespace has the Pod Security level ``restricted``, so kubectl warns of pods that violate it.
Objects of operators are checked with the operators' own definitions.
"""

from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from chart_matrix import MATRIX, Values
from e2e.control_plane import SingleTaskContext
from helm_program import NEEDS_HELM, template
from install.fresh_cluster import FreshCluster, fresh_cluster
from operator_definitions import FOLDERS, NEEDS_DEFINITIONS

pytestmark = NEEDS_DEFINITIONS
in_one_cluster = pytest.mark.asyncio(loop_scope="module")

_VIOLATION = (
    'Warning: would violate PodSecurity "restricted:latest": host namespaces (hostNetwork=true)'
)
_OPTIONS = (
    *("tls-secret", "cert-manager", "external-metrics", "namespace-vpas"),
    *("dry-run-preflight", "network-policy"),
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def fresh(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[FreshCluster]:
    folder = tmp_path_factory.mktemp("dry-run")
    context = SingleTaskContext(lambda: fresh_cluster(folder))
    made = await context.enter()
    try:
        for definitions in FOLDERS:
            await made.run(f"kubectl create -f {definitions}")
        yield made
    finally:
        await context.exit()


def test_every_optional_component_has_a_row() -> None:
    components = Path(__file__).parents[2] / "deploy" / "components"
    assert {path.parent.name for path in components.glob("*/kustomization.yaml")} == set(_OPTIONS)


@pytest.mark.parametrize(
    "folder",
    [
        pytest.param("deploy", id="everything"),
        pytest.param("deploy/crd", id="definitions"),
        pytest.param("deploy/components", id="components"),
        pytest.param("deploy/control-plane", id="beside the API server"),
        pytest.param("deploy/monitoring", id="monitoring"),
        pytest.param("deploy/overlays/reference-images", id="reference's images"),
    ],
)
@in_one_cluster
async def test_it_accepts_the_manifests(folder: str, fresh: FreshCluster) -> None:
    check_accepted(await fresh.run(f"kubectl apply --dry-run=server -k {folder}"))


@pytest.mark.parametrize(
    "options",
    [
        *(pytest.param([option], id=option) for option in _OPTIONS),
        pytest.param(["cert-manager", *_OPTIONS[2:]], id="all but one source of certificates"),
    ],
)
@in_one_cluster
async def test_it_accepts_the_optional_components(
    options: list[str], fresh: FreshCluster, request: pytest.FixtureRequest
) -> None:
    """The kustomization is that of docs/install.md."""
    page = {
        "resources": ["../deploy"],
        "components": [f"../deploy/components/{option}" for option in options],
    }
    folder = fresh.folder / f"options-{len(options)}-{options[0]}"
    folder.mkdir()
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(page), encoding="utf-8")
    check_accepted(await fresh.run(f"kubectl apply --dry-run=server -k {folder}"))


@pytest.mark.parametrize("values", MATRIX.values(), ids=MATRIX)
@NEEDS_HELM[0]
@NEEDS_HELM[1]
@in_one_cluster
async def test_it_accepts_the_chart(values: Values, fresh: FreshCluster) -> None:
    written = fresh.folder / "chart.yaml"
    written.write_text(yaml.safe_dump_all(template(values)), encoding="utf-8")
    code, printed = await fresh.attempt(f"kubectl apply --dry-run=server -f {written}")
    warnings = [line for line in printed.splitlines() if line.startswith("Warning:")]
    assert (code, warnings) == (0, [_VIOLATION] if has_host_network(template(values)) else [])
    check_accepted("\n".join(line for line in printed.splitlines() if line not in warnings))


def has_host_network(items: Iterable[dict[str, Any]]) -> bool:
    """Return True if pods violate Pod Security, as the page of the chart says."""
    pods = (item["spec"]["template"]["spec"] for item in items if item["kind"] == "Deployment")
    return any(pod.get("hostNetwork") for pod in pods)


def check_accepted(printed: str) -> None:
    """Check that kubectl reports each object as created, configured or unchanged."""
    lines = printed.splitlines()
    assert lines
    assert [line for line in lines if not line.endswith("(server dry run)")] == []
