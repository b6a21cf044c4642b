"""``kubectl vpa`` on a cluster on which the reference runs, and nothing of ours.

The pods of the components are on loopback, so the API server reaches none of them: everything comes
from the objects. ``tests/process/test_cli_doctor.py`` has an installation of the reference, too.
"""

from collections import Counter

from cli_program import Printed, run_cli
from reference import workloads
from reference.cluster import Cluster


async def ask(cluster: Cluster, *words: str) -> Printed:
    """Run a command in the namespace of the workloads; it must succeed."""
    printed = await run_cli(cluster.operator.kubeconfig, *words, "-n", workloads.NAMESPACE)
    assert printed.code == 0, printed.out + printed.err
    return printed


async def test_status_why_and_plan(cluster: Cluster) -> None:
    status = await ask(cluster, "status", "-o", "json")
    assert Counter((each["mode"], each["reason"]) for each in status.items) == {
        ("Off", "recommendation_only"): 3,
        ("Initial", "next_pod"): 3,
        ("Recreate", "at_target"): 3,
        ("InPlaceOrRecreate", "at_target"): 3,
    }
    why = await ask(cluster, "why", "deployment/initial-0")
    assert why.out.startswith("Deployment shop/initial-0: waiting\n")
    plan = await ask(cluster, "plan", "-o", "json")
    assert plan.json["source"] == "derived"
    assert {each["decision"] for each in plan.items} == {"leave"}


async def test_history_and_top(cluster: Cluster) -> None:
    history = (await ask(cluster, "history", "-o", "json")).json
    done = Counter((each["action"], each["outcome"]) for each in history["items"])
    assert done.keys() == {("evict", None), ("resize", None)}
    # A pod may be evicted again if the webhook was not ready when it was created.
    assert (done["evict", None] >= 6, done["resize", None]) == (True, 6)
    of_one = await ask(cluster, "history", "recreate-0")
    assert of_one.out.count("VPA Updater evicted Pod recreate-0-") >= 2
    assert "CPU samples from" in of_one.out
    top = await ask(cluster, "top", "-o", "json")
    assert {each["vpa"] for each in top.items} == {each["vpa"] for each in history["items"]} | {
        *workloads.names("Off"),
        *workloads.names("Initial"),
    }


async def test_numbers_from_the_references_checkpoints(cluster: Cluster) -> None:
    async with cluster.without_usage():
        explained = await ask(cluster, "explain", "initial-1", "-o", "json")
        stored = await cluster.history()
        simulated = await ask(
            cluster, "simulate", "--recommendation-margin-fraction=0", "-o", "json"
        )
    (vpa,) = explained.items
    assert vpa["source"] == "checkpoints"
    found = {
        f"initial-1/{container['container']}": {
            resource["resource"]: number["value"]
            for resource in container["resources"]
            for number in resource["numbers"]
            if number["amount"] == "target"
        }
        for container in vpa["containers"]
    }
    published = {key: one for key, one in stored.recommendations.items() if key in found}
    assert found == {key: one["target"] for key, one in published.items()}
    assert len(found) == 2
    names = {f"{each['name']}/{each['container']}" for each in simulated.items}
    assert names == workloads.containers()


async def test_report_create_and_export(cluster: Cluster) -> None:
    report = await ask(cluster, "report", "-o", "json")
    assert {each["source"] for each in report.items} == {"vpa"}
    create = await ask(cluster, "create")
    assert create.out == ""
    assert create.err.count("targets it already") == len(report.items)
    export = await ask(cluster, "export")
    assert export.out.count("kind: VerticalPodAutoscalerCheckpoint") >= len(workloads.containers())


async def test_the_doctor_finds_no_fault_of_the_reference(cluster: Cluster) -> None:
    words = ("doctor", "-n", workloads.NAMESPACE, "-o", "json")
    doctor = await run_cli(cluster.operator.kubeconfig, *words)
    # No EndpointSlice has addresses of loopback. A proxy of the tests takes its place.
    assert [each["check"] for each in doctor.items if each["severity"] != "ok"] == ["webhook"]
