"""Drift of the stored webhook configuration from ours, and the backoff of restoring it."""

import base64
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from admission import registration, registration_drift
from admission.registration_drift import RestoreBackoff
from admission.settings import AdmissionSettings
from certificates import new_bundle
from common.flags import read_flags

OURS, OTHER = new_bundle().authority.certificate, new_bundle().authority.certificate
FLAGS = ("--webhook-labels=a:b", "--ignored-vpa-object-namespaces=x,y")
Change = Callable[[dict[str, Any], dict[str, Any]], object]


def wanted(*flags: str, bundle: bytes = OURS) -> dict[str, Any]:
    settings = read_flags(AdmissionSettings, flags or FLAGS)
    return registration.configuration(registration.of_settings(settings, namespace="vpa"), bundle)


def as_stored(configuration: dict[str, Any]) -> dict[str, Any]:
    """Return a configuration with the defaults that API servers fill in."""
    there = deepcopy(configuration)
    (hook,) = there["webhooks"]
    hook |= {"matchPolicy": "Equivalent", "reinvocationPolicy": "Never"}
    for rule in hook["rules"]:
        rule["scope"] = "*"
    if service := hook["clientConfig"].get("service"):
        service["port"] = 443
    return there


def test_defaults_of_the_api_server_are_no_difference() -> None:
    by_url = ("--register-by-url", "--webhook-address=https://a", "--webhook-port=9")
    for flags in (FLAGS, by_url):
        assert registration_drift.differences(as_stored(wanted(*flags)), wanted(*flags)) == ()


def requirement(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def add(selector: str, *found: dict[str, Any]) -> Change:
    def change(_there: dict[str, Any], hook: dict[str, Any]) -> None:
        hook[selector].setdefault("matchExpressions", []).extend(found)

    return change


def replace(selector: str, *found: dict[str, Any]) -> Change:
    return lambda _, hook: hook.update({selector: {"matchExpressions": list(found)}})


def trust(bundle: bytes) -> Change:
    encoded = base64.b64encode(bundle).decode()
    return lambda _, hook: hook["clientConfig"].update(caBundle=encoded)


NAMES = "kubernetes.io/metadata.name"


@pytest.mark.parametrize(
    ("change", "different"),
    [
        # admission.md 9, row by row
        pytest.param(lambda there, _: there["metadata"].pop("labels"), "labels", id="no label"),
        pytest.param(
            lambda there, _: there["metadata"]["labels"].update(a="c"), "labels", id="another label"
        ),
        pytest.param(
            lambda there, _: there["metadata"]["labels"].update(x="y"), "", id="an additional label"
        ),
        pytest.param(
            lambda there, _: there["metadata"].update(annotations={"x": "y"}), "", id="annotations"
        ),
        pytest.param(lambda there, _: there.pop("webhooks"), "webhooks", id="no webhooks"),
        pytest.param(lambda there, _: there.update(webhooks=None), "webhooks", id="null webhooks"),
        pytest.param(lambda _, hook: hook.update(name="x"), "webhooks", id="another webhook"),
        pytest.param(
            lambda there, _: there["webhooks"].insert(0, {"name": "x"}),
            "",
            id="an additional webhook",
        ),
        pytest.param(
            lambda _, hook: hook.update(admissionReviewVersions=["v1beta1"]),
            "admissionReviewVersions",
            id="another version of reviews",
        ),
        pytest.param(lambda _, hook: hook["rules"].reverse(), "", id="rules in another order"),
        pytest.param(
            lambda _, hook: hook["rules"][1]["operations"].reverse(),
            "",
            id="operations in another order",
        ),
        pytest.param(lambda _, hook: hook["rules"].pop(), "rules", id="a missing rule"),
        pytest.param(
            lambda _, hook: hook["rules"].append({"operations": ["*"]}),
            "rules",
            id="an additional rule",
        ),
        pytest.param(
            lambda _, hook: hook["rules"][0].update(scope="Cluster"), "rules", id="another scope"
        ),
        pytest.param(
            lambda _, hook: hook["rules"][0].update(operations=["UPDATE"]),
            "rules",
            id="another operation",
        ),
        pytest.param(
            lambda _, hook: hook.update(failurePolicy="Fail"), "failurePolicy", id="failure policy"
        ),
        pytest.param(
            lambda _, hook: hook.update(sideEffects="NoneOnDryRun"),
            "sideEffects",
            id="side effects",
        ),
        pytest.param(
            lambda _, hook: hook.update(timeoutSeconds=1), "timeoutSeconds", id="another time-out"
        ),
        pytest.param(
            lambda _, hook: hook["clientConfig"]["service"].update(name="x"),
            "clientConfig",
            id="another service",
        ),
        pytest.param(
            lambda _, hook: hook["clientConfig"]["service"].update(port=80),
            "clientConfig",
            id="another port",
        ),
        pytest.param(
            lambda _, hook: hook["clientConfig"]["service"].update(path="/x"),
            "clientConfig",
            id="a path",
        ),
        pytest.param(
            lambda _, hook: hook.update(clientConfig={"url": "https://a"}),
            "clientConfig caBundle",
            id="a URL in place of the service",
        ),
        pytest.param(
            lambda _, hook: hook["clientConfig"].pop("caBundle"), "caBundle", id="no authority"
        ),
        pytest.param(trust(OTHER), "caBundle", id="another authority"),
        pytest.param(trust(b"garbage"), "caBundle", id="an invalid authority"),
        pytest.param(trust(OTHER + OURS), "", id="an additional authority"),
        pytest.param(
            trust(OURS.replace(b"\n", b"\r\n")), "", id="our authority with other line breaks"
        ),
        pytest.param(
            replace("namespaceSelector"), "namespaceSelector", id="no namespace is excluded"
        ),
        pytest.param(
            replace("namespaceSelector", requirement(NAMES, "NotIn", "x")),
            "namespaceSelector",
            id="a namespace fewer is excluded",
        ),
        pytest.param(
            replace("namespaceSelector", requirement(NAMES, "NotIn", "y", "x")),
            "",
            id="namespaces in another order",
        ),
        pytest.param(
            add("namespaceSelector", requirement("control-plane", "DoesNotExist")),
            "",
            id="a provider excludes its namespaces",
        ),
        pytest.param(
            add("namespaceSelector", requirement("managed-by", "NotIn", "provider")),
            "",
            id="a provider excludes its namespaces by a label value",
        ),
        pytest.param(
            add("namespaceSelector", requirement("vpa", "Exists")),
            "namespaceSelector",
            id="namespaces have to opt in",
        ),
        pytest.param(
            add("objectSelector", requirement("vpa", "In", "yes")),
            "objectSelector",
            id="pods have to opt in",
        ),
        pytest.param(
            lambda _, hook: hook["objectSelector"].update(matchLabels={"vpa": "yes"}),
            "objectSelector",
            id="pods have to opt in by matchLabels",
        ),
        pytest.param(
            lambda _, hook: hook.pop("objectSelector"),
            "objectSelector",
            id="no objectSelector (A15)",
        ),
        pytest.param(
            lambda _, hook: hook.update(matchPolicy="Exact", reinvocationPolicy="IfNeeded"),
            "",
            id="policies without a flag",
        ),
        pytest.param(
            lambda _, hook: hook.update(matchConditions=[{"name": "x", "expression": "true"}]),
            "",
            id="conditions",
        ),
    ],
)
def test_which_differences_are_restored(change: Change, different: str) -> None:
    there = as_stored(wanted())
    change(there, there["webhooks"][0])
    assert " ".join(registration_drift.differences(there, wanted())) == different


def test_an_additional_namespace_is_a_difference() -> None:
    one = wanted("--vpa-object-namespace=shop")
    there = as_stored(one)
    assert registration_drift.differences(there, one) == ()
    replace("namespaceSelector", requirement(NAMES, "In", "shop", "x"))(there, there["webhooks"][0])
    assert registration_drift.differences(there, one) == ("namespaceSelector",)


def test_without_an_own_bundle_every_stored_bundle_is_accepted() -> None:
    assert registration_drift.differences(as_stored(wanted(bundle=OTHER)), wanted(bundle=b"")) == ()
    assert registration_drift.differences(as_stored(wanted(bundle=b"")), wanted(bundle=b"")) == ()


@pytest.mark.parametrize(
    ("change", "reported"),
    [
        pytest.param(lambda *_: None, "", id="no change"),
        pytest.param(
            add("namespaceSelector", requirement("control-plane", "DoesNotExist")),
            "namespaceSelector",
            id="namespaces",
        ),
        pytest.param(
            add("objectSelector", requirement("app", "NotIn", "db")), "objectSelector", id="objects"
        ),
        pytest.param(
            lambda _, hook: hook.update(matchConditions=[{"name": "x", "expression": "false"}]),
            "matchConditions",
            id="conditions",
        ),
        pytest.param(lambda there, _: there.pop("webhooks"), "", id="no webhook"),
    ],
)
def test_exclusions_that_stay_are_reported(change: Change, reported: str) -> None:
    there = as_stored(wanted())
    change(there, there["webhooks"][0])
    assert " ".join(registration_drift.exemptions(there, wanted())) == reported


# The backoff of restoring the configuration


def restore_times(drift_times: list[float], backoff: RestoreBackoff) -> list[float]:
    """Return those times in ``drift_times`` at which the configuration is restored."""
    written = []
    for now in drift_times:
        if backoff.allows(now):
            backoff = backoff.after(now)
            written.append(now)
    return written


@pytest.mark.parametrize(
    ("drift_times", "want"),
    [
        pytest.param([5], [5], id="the first time immediately"),
        pytest.param([5, 24, 25], [5, 25], id="the second time after the first delay"),
        pytest.param([*range(0, 150, 10)], [0, 20, 60, 140], id="delays double"),
        pytest.param([0, 20, 60, 1259], [0, 20, 60, 1259], id="just before the reset, delays stay"),
        pytest.param(
            [0, 20, 60, 1260, 1270, 1280],
            [0, 20, 60, 1260, 1280],
            id="a time without drift resets the delay",
        ),
    ],
)
def test_the_delay_grows_with_each_restore(drift_times: list[float], want: list[float]) -> None:
    assert restore_times(drift_times, RestoreBackoff()) == want


def competing_writes(seconds: int) -> list[tuple[int, str]]:
    """Return the writes of two replicas with different flags that check every ten seconds."""
    sides = {"old": RestoreBackoff(), "new": RestoreBackoff()}
    stored, written = "new", []  # the newer replica registers at its start
    for now in range(1, seconds):
        for side, offset in (("old", 3), ("new", 7)):
            if now % 10 == offset and stored != side and sides[side].allows(now):
                sides[side] = sides[side].after(now)
                stored = side
                written.append((now, side))
    return written


def test_two_replicas_write_four_times_in_a_minute() -> None:
    assert [side for _, side in competing_writes(60)] == ["old", "new", "old", "new"]


def test_competing_replicas_write_at_most_once_per_ten_minutes_each() -> None:
    hours = 24
    for side in ("old", "new"):
        late = [at for at, who in competing_writes(hours * 3600) if at > 3600 and who == side]
        assert 0 < len(late) <= (hours - 1) * 6


def test_the_delay_is_at_most_ten_minutes() -> None:
    backoff = RestoreBackoff()
    for _ in range(50):
        backoff = backoff.after(backoff.last + 600)
    assert not backoff.allows(backoff.last + 599)
    assert backoff.allows(backoff.last + 600)
