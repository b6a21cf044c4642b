"""The way of an installation with kubectl: from nothing to an upgrade, away and back.

The manifests are those that are shipped, with the commands of the pages. Only the registry and the
tags of images are changed, as the README says.
"""

from pathlib import Path
from time import monotonic

from e2e.cluster import Case
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
    MISSING,
    NEXT,
    FreshCluster,
    documented,
    fresh_cluster,
    workload,
)

REGISTRY_COMMAND = (
    "sed -i 's|registry.example.com/vpa|your.registry/your-team|' "
    "deploy/components/kustomization.yaml"
)
APPLY = "kubectl apply -k deploy/"
LEAVE = "kubectl delete -k deploy/components"


async def test_from_nothing_to_an_upgrade_away_and_back(tmp_path: Path) -> None:
    async with fresh_cluster(tmp_path) as fresh, workload(fresh) as case:
        before = await fresh.objects()
        await _install(fresh, case)
        await _upgrade(fresh, case)
        await _upgrade_to_a_missing_image(fresh, case)
        time = await wait_for_checkpoint(case)
        kept = await history(case)
        await _leave(fresh, case, before)
        assert await history(case) == kept
        await _apply(fresh, case, "to the first patched pod, with the data of before", new=False)
        await wait_for_checkpoint(case, after=time)
        assert await history(case) == kept


async def _install(fresh: FreshCluster, case: Case) -> None:
    await fresh.run(documented("README.md", REGISTRY_COMMAND))
    await _apply(fresh, case, "to the first patched pod", new=True)
    await check_images(fresh, FIRST)
    await check_spread(fresh)
    await check_quiet(fresh)
    await check_resized_in_place(case)


async def _apply(fresh: FreshCluster, case: Case, figure: str, *, new: bool) -> None:
    async with creating_pods(case) as creations:
        began = monotonic()
        await fresh.run(documented("README.md", APPLY))
        if new:
            await case.create_vpa("web", "InPlaceOrRecreate")
        await wait_until_patched(case, creations)
        print(f"kubectl apply {figure}: {monotonic() - began:.1f} s")  # noqa: T201 - a figure, shown with -s
        await fresh.wait_for_rollouts()
    assert creations.refused == []


async def _upgrade(fresh: FreshCluster, case: Case) -> None:
    async with creating_pods(case) as creations:
        await _apply_tag(fresh, NEXT)
        await fresh.wait_for_rollouts()
        await check_images(fresh, NEXT)
        await check_quiet(fresh)
    assert creations.patched
    assert creations.failures == ([], 0)


async def _apply_tag(fresh: FreshCluster, tag: str) -> None:
    expression = f"s|newTag: .*}}|newTag: {tag}}}|"
    await fresh.run(f"sed -i '{expression}' deploy/components/kustomization.yaml")
    await fresh.run(documented("docs/upgrade.md", APPLY))


async def _upgrade_to_a_missing_image(fresh: FreshCluster, case: Case) -> None:
    """The rollouts stop and say why, the old pods go on, and the old tag repairs it."""
    async with creating_pods(case) as creations:
        await _apply_tag(fresh, MISSING)
        status = "kubectl -n kube-system rollout status deployment/vpa-admission-controller"
        code, printed = await fresh.attempt(f"{status} --timeout=5s")
        assert (code, "timed out" in printed) == (1, True), printed

        async def visible() -> bool:
            pods = await fresh.run("kubectl -n kube-system get pods --no-headers")
            states = sorted(tuple(line.split()[1:3]) for line in pods.splitlines())
            return states == 3 * [("0/1", "ImagePullBackOff")] + 6 * [("1/1", "Running")]

        await fresh.cluster.wait_for(visible, "each rollout shows the missing image")
        await _apply_tag(fresh, NEXT)
        await fresh.wait_for_rollouts()
        await check_images(fresh, NEXT)
    assert creations.patched
    assert creations.failures == ([], 0)


async def _leave(fresh: FreshCluster, case: Case, before: set[str]) -> None:
    async with creating_pods(case) as creations:
        await fresh.run(documented("docs/uninstall.md", LEAVE))
        await check_nothing_is_left(fresh, before)
    assert creations.refused == []
    async with creating_pods(case) as creations:

        async def created() -> bool:
            return creations.unpatched > 0

        await case.cluster.wait_for(created, "pods are created")
    assert (creations.refused, creations.patched) == ([], 0)
