"""The history of reviews: which are recorded, and what of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from msgspec import structs

from admission.admission_history import AdmissionHistory
from admission.pod_reviews import LookupFailedError, VpaMatch
from builders import recommendation, vpa
from common.read_model.admission import PastAdmission
from fixed_clock import FixedClock
from webhook_harness import POD, VPA, FakeCluster, Harness

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
RECOMMENDED = VpaMatch(vpa=vpa(recommendations=(recommendation(),)))


def pod(**meta: Any) -> dict[str, Any]:
    requests = {"resources": {"requests": {"cpu": "100m"}}}
    return {"metadata": meta, "spec": {"containers": [{"name": "app", **requests}]}}


def request(**other: Any) -> dict[str, Any]:
    asked = {
        "uid": "u",
        "resource": POD,
        "namespace": "shop",
        "operation": "CREATE",
        "object": pod(generateName="web-5d4-"),
    }
    return asked | other


async def reviewed(cluster: FakeCluster, asked: dict[str, Any]) -> list[PastAdmission]:
    """Return the history after one review."""
    history = AdmissionHistory(FixedClock(NOW))
    harness = Harness(cluster, history=history)
    await harness.review(asked)
    return [checked(entry) for entry in history.entries.newest_first()]


def checked(entry: PastAdmission) -> PastAdmission:
    """Return the entry with a duration that doesn't vary."""
    assert 0 < entry.seconds < 10
    return structs.replace(entry, seconds=0.0)


PATCHED = PastAdmission(
    number=1,
    at=NOW,
    namespace="shop",
    vpa="web",
    pod="web-5d4-%",
    outcome="patched",
    changes="app cpu 100m -> 250m, memory none -> 256Mi",
    problem=None,
    dry_run=False,
    seconds=0.0,
)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A review, and what is recorded; None: nothing."""

    id: str
    cluster: FakeCluster = field(default_factory=lambda: FakeCluster(RECOMMENDED))
    request: Mapping[str, Any] = field(default_factory=dict)
    want: Mapping[str, Any] | None = field(default_factory=dict)


WITHOUT = {"vpa": "", "changes": ""}
LONG = "x" * 5000
CASES = [
    Case(id="a patched pod"),
    Case(id="a name", request={"name": "web-0"}, want={"pod": "web-0"}),
    Case(id="a name in the object", request={"object": pod(name="web-1")}, want={"pod": "web-1"}),
    Case(id="no name", request={"object": pod()}, want={"pod": "%"}),
    Case(id="a dry run", request={"dryRun": True}, want={"dry_run": True}),
    Case(id="a long name", request={"name": LONG}, want={"pod": "x" * 253}),
    Case(id="a pod without a VPA", cluster=FakeCluster(), want=None),
    Case(
        id="a VPA without a recommendation",
        cluster=FakeCluster(VpaMatch(vpa=vpa())),
        want={"changes": ""},
    ),
    Case(
        id="a VPA of mode Off",
        cluster=FakeCluster(VpaMatch(off=True)),
        want=WITHOUT | {"outcome": "off"},
    ),
    Case(
        id="no owner",
        cluster=FakeCluster(LookupFailedError("no answer")),
        want=WITHOUT | {"outcome": "lookup_failed", "problem": "owner look-up failed: no answer"},
    ),
    Case(
        id="a long problem",
        cluster=FakeCluster(LookupFailedError(LONG)),
        want=WITHOUT
        | {"outcome": "lookup_failed", "problem": f"owner look-up failed: {LONG}"[:1000]},
    ),
    Case(
        id="before the caches have synced",
        cluster=FakeCluster(synced=False),
        want=WITHOUT | {"outcome": "not_synced"},
    ),
    Case(id="another object", request={"resource": VPA, "operation": "DELETE"}, want=None),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
async def test_what_is_recorded_of_a_review(case: Case) -> None:
    found = await reviewed(case.cluster, {**request(), **case.request})
    assert found == ([] if case.want is None else [structs.replace(PATCHED, **case.want)])


async def test_an_undecodable_pod_is_recorded_without_its_content() -> None:
    broken = {"metadata": {"generateName": "web-"}, "spec": {"containers": "none"}}
    (found,) = await reviewed(FakeCluster(RECOMMENDED), request(object=broken))
    assert (found.outcome, found.pod, found.vpa) == ("bad_object", "web-%", "")
    assert (found.problem or "").startswith("undecodable pod: ")
    (found,) = await reviewed(FakeCluster(RECOMMENDED), request(object={"metadata": 7}))
    assert (found.outcome, found.pod) == ("bad_object", "")


async def test_no_environment_value_is_recorded() -> None:
    secret = "hunter2"
    given = pod(name="web-0", annotations={"note": secret}, labels={"l": secret})
    given["spec"]["containers"][0]["env"] = [{"name": "PASSWORD", "value": secret}]
    (found,) = await reviewed(FakeCluster(RECOMMENDED), request(object=given))
    assert secret not in msgspec.json.encode(found).decode()
