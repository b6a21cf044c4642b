"""``kubectl vpa report`` as a process, on a cluster in which only the reference's objects exist."""

import asyncio
import contextlib
import csv
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio
import yaml

from cli_cluster import LARGE, SCENARIO, SMALL, CliCluster, cli_cluster, recommended
from cli_program import Printed, run_cli
from common.kube.endpoints import CHECKPOINTS, NAMESPACES, PODS, VPAS
from fake_prometheus import FakePrometheus, Steady, refusal
from recommender_harness import checkpoint
from sandbox.cluster import running_cluster
from workloads import NAMESPACE

SCREENS = Path(__file__).parent / "screens"
PRICES = ("--cpu-price=0.04", "--memory-price=0.005", "--currency=USD")

pytestmark = pytest.mark.asyncio(loop_scope="module")


@dataclass(frozen=True, slots=True)
class Observed:
    """A cluster, and the Prometheus that has the usage of ``legacy``."""

    cluster: CliCluster
    prometheus: FakePrometheus

    async def report(self, *arguments: str, width: int = 0) -> Printed:
        return await run_cli(self.cluster.kubeconfig, "report", *arguments, width=width)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def observed(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Observed]:
    async with cli_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        await fill(cluster)
        pods = [each.metadata for each in (await cluster.client.list(PODS)).items]
        usage = [
            Steady(pod=each.name, cores="0.1", bytes=str(300 << 20), labels={"app": "legacy"})
            for each in pods
            if each.name.startswith("legacy")
        ]
        async with FakePrometheus(*usage) as prometheus:
            yield Observed(cluster, prometheus)


async def fill(cluster: CliCluster) -> None:
    """Create workloads with and without a VPA, one without pods, and a pod without a controller."""
    for name, replicas, requests in (
        ("cart", 2, LARGE),
        ("idle", 0, LARGE),
        ("legacy", 4, {"cpu": "1", "memory": "2Gi"}),
        ("new", 1, LARGE),
        ("search", 2, {"cpu": "100m"}),
        ("web", 3, LARGE),
    ):
        await cluster.deploy(name, replicas, requests)
    await cluster.autoscale("cart", "Off", status=recommended(SMALL))
    await cluster.autoscale("idle", status=recommended(SMALL))
    await cluster.autoscale("search", status=recommended({"cpu": "1200m", "memory": "2Gi"}))
    await cluster.autoscale("web", "InPlaceOrRecreate", status=recommended(SMALL))
    await bare_pod(cluster, "debug", NAMESPACE)
    await cluster.until_running(13)


async def bare_pod(cluster: CliCluster, name: str, namespace: str) -> None:
    resources = {"requests": {"cpu": "100m", "memory": "128Mi"}}
    container = {"name": "shell", "image": "registry.example/shell", "resources": resources}
    pod = {"metadata": {"name": name}, "spec": {"containers": [container]}}
    await cluster.client.create(PODS.as_dicts(), pod, namespace=namespace)


@pytest.mark.parametrize("width", [80, 160])
async def test_the_screen_is_as_reviewed(observed: Observed, width: int) -> None:
    address = f"--prometheus-address={observed.prometheus.address}"
    printed = await observed.report("-n", NAMESPACE, address, *PRICES, width=width)
    golden = SCREENS / f"report-{width}.txt"
    if os.environ.get("WRITE_SCREENS"):
        golden.write_text(printed.out, encoding="utf-8")
    assert printed.out == golden.read_text(encoding="utf-8")
    assert max(map(len, printed.out.splitlines())) <= width
    assert (printed.code, printed.err) == (0, "")


async def test_json_has_exact_amounts(observed: Observed) -> None:
    printed = await observed.report("-n", NAMESPACE, "-o", "json", *PRICES)
    content = printed.json
    assert (content["apiVersion"], content["kind"]) == ("cli.vpa/v1", "Report")
    assert content["contexts"] == ["sandbox"]
    assert content["prices"] == {"cpu": 0.04, "memory": 0.005, "currency": "USD"}
    (search,) = (item for item in content["items"] if item["name"] == "search")
    assert search == {
        "context": "sandbox",
        "namespace": "shop",
        "kind": "Deployment",
        "name": "search",
        "pods": 2,
        "vpa": "search",
        "mode": "Recreate",
        "source": "vpa",
        "message": "",
        "cpu": {
            "request": "100m",
            "recommended": "1200m",
            "totalRequest": "200m",
            "totalRecommended": "2400m",
            "givenBack": "0",
            "lacking": "2200m",
        },
        "memory": {
            "request": None,
            "recommended": "2Gi",
            "totalRequest": "0",
            "totalRecommended": "4Gi",
            "givenBack": "0",
            "lacking": "4Gi",
        },
        "cost": {"request": 5.84, "recommended": 84.68, "change": 78.84},
        "containers": [
            {
                "container": "app",
                "cpu": {"request": "100m", "recommended": "1200m"},
                "memory": {"request": None, "recommended": "2Gi"},
            }
        ],
    }
    assert content["totals"][0]["namespace"] == "shop"
    assert (content["total"]["workloads"], content["total"]["withoutRecommendation"]) == (7, 3)


@pytest.mark.parametrize("form", ["csv", "yaml", "markdown", "html"])
async def test_other_forms_have_every_workload(observed: Observed, form: str) -> None:
    printed = await observed.report("-n", NAMESPACE, "-o", form)
    assert (printed.code, printed.err) == (0, "")
    for name in ("cart", "debug", "idle", "legacy", "new", "search", "web"):
        assert name in printed.out


async def test_a_vpa_without_a_recommendation_is_estimated_from_its_checkpoints(
    observed: Observed,
) -> None:
    client = observed.cluster.client
    now = observed.cluster.sandbox.clock.now().isoformat(timespec="seconds")
    stored = checkpoint("new", lastSampleStart=now)
    del stored["metadata"]["resourceVersion"]
    await client.create(CHECKPOINTS.as_dicts(), stored, namespace=NAMESPACE)
    await observed.cluster.autoscale("new", "Off")
    try:
        printed = await observed.report("-n", NAMESPACE, "-o", "json")
        alone = await observed.report("-n", NAMESPACE, "-o", "json", "--from=checkpoints")
        vpas = await observed.report("-n", NAMESPACE, "-o", "json", "--from=vpas")
    finally:
        await client.delete(VPAS, "new", namespace=NAMESPACE)
        await client.delete(CHECKPOINTS, "new-app", namespace=NAMESPACE)
    found = {each["name"]: each for each in printed.items}
    assert {name: each["source"] for name, each in found.items()} == {
        **dict.fromkeys(("cart", "idle", "search", "web"), "vpa"),
        **dict.fromkeys(("legacy", "debug"), "none"),
        "new": "checkpoints",
    }
    (new,) = (each for each in alone.items if each["source"] != "none")
    assert new == found["new"]
    (web,) = (each for each in alone.items if each["name"] == "web")
    assert web["message"] == "VPA web has no checkpoints with usage"
    (new,) = (each for each in vpas.items if each["name"] == "new")
    assert (new["source"], new["message"]) == ("none", "VPA new recommends nothing yet")


async def test_csv_has_a_row_for_each_workload(observed: Observed) -> None:
    printed = await observed.report("-n", NAMESPACE, "-o", "csv", *PRICES)
    rows = list(csv.DictReader(printed.out.splitlines()))
    assert len(rows) == 7
    (web,) = (row for row in rows if row["name"] == "web")
    assert (web["cpu.givenBack"], web["cost.change"]) == ("1353m", "-47.78")
    assert "containers" not in web


async def test_prometheus_alone_recommends_for_all_workloads_with_usage(
    observed: Observed,
) -> None:
    address = f"--prometheus-address={observed.prometheus.address}"
    printed = await observed.report("-n", NAMESPACE, "--from=prometheus", address, "-o", "json")
    assert {each["name"]: each["source"] for each in printed.items} == {
        "legacy": "prometheus",
        **dict.fromkeys(("cart", "debug", "idle", "new", "search", "web"), "none"),
    }
    messages = {each["name"]: each["message"] for each in printed.items}
    assert messages["debug"] == "no controller, so no VPA can control it"
    assert messages["new"] == "no usage in Prometheus"


async def test_a_prometheus_that_refuses_is_a_note(observed: Observed) -> None:
    observed.prometheus.refused[NAMESPACE] = lambda: refusal(422, "execution", "too many samples")
    try:
        address = f"--prometheus-address={observed.prometheus.address}"
        printed = await observed.report("-n", NAMESPACE, address, "-o", "json")
    finally:
        observed.prometheus.refused.clear()
    assert printed.code == 1
    assert printed.err.startswith("not seen: history of shop in Prometheus: ")
    assert "too many samples" in printed.err
    assert {each["source"] for each in printed.items} == {"vpa", "none"}


async def test_flags_that_name_other_labels_are_suggested(observed: Observed) -> None:
    async with FakePrometheus() as empty:
        address = f"--prometheus-address={empty.address}"
        printed = await observed.report("-n", NAMESPACE, address, "-o", "json")
    assert printed.code == 1
    assert "--prometheus-cadvisor-job-name=kubelet" in printed.err


async def test_a_selector_selects_pods(observed: Observed) -> None:
    printed = await observed.report("-n", NAMESPACE, "-l", "app=web", "-o", "json")
    assert [each["name"] for each in printed.items] == ["web"]
    printed = await observed.report("-n", NAMESPACE, "-l", "app=none")
    assert (printed.code, printed.err) == (0, "nothing found: no pods\n")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--from=prometheus",), "--from=prometheus needs --prometheus-address"),
        (("--cpu-price=-1",), "argument --cpu-price: must be from 0: '-1'"),
        (("--memory-price=cheap",), "argument --memory-price: not a number: 'cheap'"),
        (("--from=metrics",), "argument --from: invalid choice: 'metrics' (choose from "),
        (
            ("--context=a", "--context=b", "--prometheus-address=http://localhost:9090"),
            "--prometheus-address has the usage of one cluster: use one --context with it",
        ),
    ],
    ids=["no address", "a negative price", "no price", "no source", "one Prometheus for two"],
)
async def test_wrong_arguments(observed: Observed, arguments: tuple[str, ...], error: str) -> None:
    printed = await observed.report(*arguments)
    assert (printed.code, printed.out) == (2, "")
    assert error in printed.err


async def test_an_unusable_address_is_an_error(observed: Observed) -> None:
    printed = await observed.report("-n", NAMESPACE, "--prometheus-address=prometheus:9090")
    assert (printed.code, printed.out) == (1, "")
    assert printed.err.startswith("error: --prometheus-address is not a URL")


@contextlib.asynccontextmanager
async def several_contexts(observed: Observed, folder: Path) -> AsyncIterator[Path]:
    """Write a kubeconfig with the cluster, one without VPAs, and one that is away."""
    async with running_cluster(SCENARIO) as plain, plain.client("test") as client:
        other = CliCluster(plain, client, folder / "other")
        await client.create(NAMESPACES.as_dicts(), {"metadata": {"name": NAMESPACE}})
        await bare_pod(other, "alone", NAMESPACE)
        await other.until_running(1)
        joined = yaml.safe_load(observed.cluster.kubeconfig.read_text())
        second = yaml.safe_load(plain.kubeconfig)
        for kind in ("clusters", "users", "contexts"):
            (entry,) = second[kind]
            joined[kind].append({**entry, "name": "plain"})
        joined["contexts"][-1]["context"] = {"cluster": "plain", "user": "plain"}
        away = {**joined["clusters"][0]["cluster"], "server": "https://127.0.0.1:9"}
        joined["clusters"].append({"name": "away", "cluster": away})
        joined["contexts"].append({"name": "away", "context": {"cluster": "away", "user": "plain"}})
        file = folder / "joined"
        await asyncio.to_thread(file.write_text, yaml.safe_dump(joined))
        yield file


async def test_several_contexts_are_one_report(observed: Observed, tmp_path: Path) -> None:
    async with several_contexts(observed, tmp_path) as kubeconfig:
        two = ("--context=sandbox", "--context=plain", "-n", NAMESPACE)
        printed = await run_cli(kubeconfig, "report", *two, "-o", "json")
        assert (printed.code, printed.err) == (0, "")
        assert {each["context"] for each in printed.items} == {"sandbox", "plain"}
        totals = [(each["context"], each["pods"]) for each in printed.json["totals"]]
        assert totals == [("plain", 1), ("sandbox", 13)]
        assert printed.json["total"]["pods"] == 14
        table = await run_cli(kubeconfig, "report", *two, width=160)
        assert table.out.startswith("CONTEXT  NAMESPACE  WORKLOAD ")
        narrow = await run_cli(kubeconfig, "report", *two, width=80)
        assert "plain/shop/alone" in narrow.out


async def test_a_context_that_is_away_is_a_note(observed: Observed, tmp_path: Path) -> None:
    async with several_contexts(observed, tmp_path) as kubeconfig:
        printed = await run_cli(
            kubeconfig, "report", "--all-contexts", "-n", NAMESPACE, "-o", "json"
        )
        assert printed.code == 1
        assert printed.err.startswith("not seen: context away: ")
        assert printed.json["contexts"] == ["sandbox", "plain", "away"]
        assert printed.json["total"]["pods"] == 14
        alone = await run_cli(kubeconfig, "report", "--context=away", "-n", NAMESPACE)
        assert (alone.code, alone.out) == (1, "")
        assert alone.err.startswith("error: ")
        wrong = await run_cli(kubeconfig, "report", "--context=none", "-n", NAMESPACE)
        assert (wrong.code, wrong.err.count("\n")) == (1, 1)


async def test_a_person_who_may_not_list_pods_gets_an_error(
    observed: Observed, tmp_path: Path
) -> None:
    content = yaml.safe_load(observed.cluster.kubeconfig.read_text())
    content["users"][0]["user"] = {"token": "invalid"}
    file = tmp_path / "invalid"
    await asyncio.to_thread(file.write_text, yaml.safe_dump(content))
    printed = await run_cli(file, "report", "-n", NAMESPACE)
    assert (printed.code, printed.out) == (1, "")
    assert printed.err.startswith("error: ")
