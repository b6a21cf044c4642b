"""The commands on the pages for operators, and those of the quick start, run as they are there.

The pages have a namespace ``shop`` with the Deployment ``web`` and three VPAs: ``web``, ``second``
for the same target, and ``missing`` for a target that doesn't exist.
"""

import os
import re
import sys
from pathlib import Path

import pytest
import yaml

from common.kube.endpoints import NAMESPACES
from e2e.cluster import Case, Cluster
from page_commands import CONTROL_PLANE, ROOT, commands
from page_runner import run_commands, write_manifests

_SHOP = "shop"
_OWN = {"tour"}  # pages that create their namespace and delete it
_NAMESPACES = {_SHOP, "monitoring", *(Path(page).stem for page in CONTROL_PLANE)} - _OWN
# These would replace or remove the installation. The API server still checks every object.
_WHOLE_INSTALLATION = re.compile(r"^kubectl (apply|delete) -k deploy\b\S*")


def rehearsed(command: str) -> str:
    """Return the command, with a dry run if it is about the whole installation."""
    return _WHOLE_INSTALLATION.sub(r"\g<0> --dry-run=server", command)


@pytest.mark.parametrize(
    ("command", "want"),
    [
        ("kubectl apply -k deploy/", "kubectl apply -k deploy/ --dry-run=server"),
        ("kubectl delete -k deploy/crd", "kubectl delete -k deploy/crd --dry-run=server"),
        ("kubectl apply -f vpa.yaml", "kubectl apply -f vpa.yaml"),
    ],
)
def test_which_commands_are_a_dry_run(command: str, want: str) -> None:
    assert rehearsed(command) == want


async def _prepare(cluster: Cluster) -> Case:
    """Create the namespaces of the pages, and the workload and the VPAs that they name."""
    for name in _NAMESPACES:
        await cluster.client.create(NAMESPACES.as_dicts(), {"metadata": {"name": name}})
    shop = Case(cluster, _SHOP)
    await shop.deploy("web")
    await shop.create_vpa("web", "Initial")
    await shop.wait_for_recommendation("web")
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    await shop.create_vpa("second", "Initial", targetRef=target)
    await shop.create_vpa("missing", "Initial", targetRef=target | {"name": "nothing"})
    await shop.wait_for_conditions("second", ControlledByAnotherVPA="True")
    await shop.wait_for_conditions("missing", ConfigUnsupported="True")
    await cluster.wait_for(lambda: shop.checkpoint("web"), "the checkpoint of web")
    return shop


def _fill(folder: Path, page: str, cluster: Cluster) -> None:
    """Create a folder with what the commands of a page need of a checkout, and a kubeconfig."""
    folder.mkdir()
    write_manifests(page, folder)
    for name in ("deploy", "examples"):
        (folder / name).symlink_to(ROOT / name)
    (folder / ".venv").symlink_to(sys.prefix)
    config = yaml.safe_load(cluster.kubectl.kubeconfig.read_text())
    config["contexts"][0]["context"]["namespace"] = Path(page).stem  # of commands that name none
    (folder / "kubeconfig").write_text(yaml.safe_dump(config))


async def _run_page(page: str, cluster: Cluster, folder: Path) -> None:
    _fill(folder, page, cluster)
    plugins = f"{Path(sys.prefix) / 'bin'}:{os.environ['PATH']}"  # kubectl-vpa
    variables = {"KUBECONFIG": str(folder / "kubeconfig"), "PATH": plugins}
    await run_commands(commands(page), folder, variables, changed=rehearsed)


async def test_the_pages_show_what_the_commands_print(cluster: Cluster, tmp_path: Path) -> None:
    await _prepare(cluster)
    problems = []
    for page in CONTROL_PLANE:
        try:
            await _run_page(page, cluster, tmp_path / Path(page).stem)
        except (AssertionError, TimeoutError) as error:
            problems.append(str(error) or repr(error))
    for name in _NAMESPACES:
        await cluster.client.delete(NAMESPACES, name)
    assert not problems, "\n\n".join(problems)
