"""The way of a release with Helm: from nothing to an upgrade, back, away and back again.

The commands are those of the chart's page, in a namespace of the release's own.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Any

from e2e.cluster import Case
from helm_program import NEEDS_HELM
from install.checks import (
    check_images,
    check_nothing_is_left,
    check_quiet,
    check_resized_in_place,
    check_spread,
    creating_pods,
    history,
    wait_for_checkpoint,
    wait_until_patched,
)
from install.fresh_cluster import (
    FIRST,
    NEXT,
    FreshCluster,
    documented,
    fresh_cluster,
    workload,
)

pytestmark = NEEDS_HELM

PAGE = "deploy/chart/README.md"
INSTALL = (
    "helm install vpa deploy/chart --namespace kube-system "
    "--set image.registry=your.registry/your-team"
)
UPGRADE = "helm upgrade vpa deploy/chart --namespace kube-system --reset-then-reuse-values"
ROLLBACK = "helm rollback vpa --namespace kube-system"
UNINSTALL = "helm uninstall vpa --namespace kube-system"
CHANGE = f"--set image.tag={NEXT},labels.team=platform,webhook.timeoutSeconds=7"
CRD = "customresourcedefinition/verticalpodautoscalers.autoscaling.k8s.io"
HOOK, SECRET = "mutatingwebhookconfiguration/vpa-webhook-config", "secret/vpa-tls-certs"


async def test_from_nothing_to_an_upgrade_back_away_and_back_again(tmp_path: Path) -> None:
    async with fresh_cluster(tmp_path, system="vpa") as fresh, workload(fresh) as case:
        before = await fresh.objects()
        await _install(fresh, case)
        certificates = (await _get(fresh, SECRET))["data"]
        await _change(fresh, case, f"{_command(fresh, UPGRADE)} {CHANGE}", tag=NEXT)
        await _check_values(fresh, seconds=7, team="platform")
        await _change(fresh, case, _command(fresh, ROLLBACK), tag=FIRST)
        await _check_values(fresh, seconds=5, team=None)
        assert (await _get(fresh, SECRET))["data"] == certificates
        time = await wait_for_checkpoint(case)
        kept = await history(case)
        await _uninstall(fresh, case, before)
        assert await history(case) == kept
        await fresh.run(_command(fresh, INSTALL))
        await fresh.wait_for_rollouts()
        await wait_for_checkpoint(case, after=time)
        assert await history(case) == kept


def _command(fresh: FreshCluster, command: str) -> str:
    return documented(PAGE, command).replace("kube-system", fresh.system)


async def _install(fresh: FreshCluster, case: Case) -> None:
    async with creating_pods(case) as creations:
        began = monotonic()
        notes = await fresh.run(_command(fresh, INSTALL))
        await case.create_vpa("web", "InPlaceOrRecreate")
        await wait_until_patched(case, creations)
        print(f"helm install to the first patched pod: {monotonic() - began:.1f} s")  # noqa: T201 - a figure, shown with -s
        answers = [await fresh.run(command) for command in _checks(notes)]
    assert creations.refused == []
    assert "vpa.k8s.io" in answers[-2]
    await check_images(fresh, FIRST)
    await check_spread(fresh)
    await check_quiet(fresh)
    await check_resized_in_place(case)


def _checks(notes: str) -> Iterator[str]:
    """Yield the commands of the notes by which a user checks the release."""
    for line in notes.splitlines():
        if line.startswith(("  kubectl -n ", "  kubectl get mutatingwebhookconfiguration")):
            yield line


async def _change(fresh: FreshCluster, case: Case, command: str, *, tag: str) -> None:
    async with creating_pods(case) as creations:
        await fresh.run(command)
        await fresh.wait_for_rollouts()
        await check_images(fresh, tag)
    assert creations.patched
    assert creations.failures == ([], 0)


async def _check_values(fresh: FreshCluster, *, seconds: int, team: str | None) -> None:
    """Check what Helm changes itself, and wait for what admission changes by its flags."""
    for changed in (SECRET, CRD):
        assert (await _get(fresh, changed))["metadata"]["labels"].get("team") == team

    async def registered() -> bool:
        (hook,) = (await _get(fresh, HOOK))["webhooks"]
        return bool(hook["timeoutSeconds"] == seconds)

    await fresh.cluster.wait_for(registered, f"the webhook has a time-out of {seconds} s")


async def _get(fresh: FreshCluster, target: str) -> dict[str, Any]:
    return dict(json.loads(await fresh.run(f"kubectl -n {fresh.system} get {target} -o json")))


async def _uninstall(fresh: FreshCluster, case: Case, before: set[str]) -> None:
    async with creating_pods(case) as creations:
        await fresh.run(f"{_command(fresh, UNINSTALL)} --wait")
        await check_nothing_is_left(fresh, before)
    assert creations.refused == []
