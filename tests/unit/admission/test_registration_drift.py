"""What of a stored webhook configuration is ours, field by field, and how hard we insist on it."""

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
    """A configuration with what API servers fill in."""
    there = deepcopy(configuration)
    (hook,) = there["webhooks"]
    hook |= {"matchPolicy": "Equivalent", "reinvocationPolicy": "Never"}
    for rule in hook["rules"]:
        rule["scope"] = "*"
    if service := hook["clientConfig"].get("service"):
        service["port"] = 443
    return there


def test_what_was_created_is_right_with_what_api_servers_fill_in() -> None:
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
OWN = ("vpa-admission-controller", "vpa-recommender", "vpa-updater")


@pytest.mark.parametrize(
    ("change", "different"),
    [
        # admission.md 9, row by row
        pytest.param(lambda there, _: there["metadata"].pop("labels"), "labels", id="no label"),
        pytest.param(
            lambda there, _: there["metadata"]["labels"].update(a="c"), "labels", id="another label"
        ),
        pytest.param(
            lambda there, _: there["metadata"]["labels"].update(x="y"), "", id="a label besides"
        ),
        pytest.param(
            lambda there, _: there["metadata"].update(annotations={"x": "y"}), "", id="annotations"
        ),
        pytest.param(lambda there, _: there.pop("webhooks"), "webhooks", id="no webhooks"),
        pytest.param(lambda there, _: there.update(webhooks=None), "webhooks", id="null webhooks"),
        pytest.param(lambda _, hook: hook.update(name="x"), "webhooks", id="another webhook"),
        pytest.param(
            lambda there, _: there["webhooks"].insert(0, {"name": "x"}), "", id="one besides ours"
        ),
        pytest.param(
            lambda _, hook: hook.update(admissionReviewVersions=["v1beta1"]),
            "admissionReviewVersions",
            id="another version of reviews",
        ),
        pytest.param(lambda _, hook: hook["rules"].reverse(), "", id="rules in another order"),
        pytest.param(
            lambda _, hook: hook["rules"][1]["operations"].reverse(), "", id="operations, too"
        ),
        pytest.param(lambda _, hook: hook["rules"].pop(), "rules", id="a rule less"),
        pytest.param(
            lambda _, hook: hook["rules"].append({"operations": ["*"]}), "rules", id="a rule more"
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
        pytest.param(trust(b"garbage"), "caBundle", id="an authority that is none"),
        pytest.param(trust(OTHER + OURS), "", id="another authority besides ours"),
        pytest.param(trust(OURS.replace(b"\n", b"\r\n")), "", id="our authority in other words"),
        pytest.param(
            replace("namespaceSelector"), "namespaceSelector", id="no namespace is exempted"
        ),
        pytest.param(
            replace("namespaceSelector", requirement(NAMES, "NotIn", "x")),
            "namespaceSelector",
            id="a namespace less is exempted",
        ),
        pytest.param(
            replace("namespaceSelector", requirement(NAMES, "NotIn", "y", "x")),
            "",
            id="namespaces in another order",
        ),
        pytest.param(
            add("namespaceSelector", requirement("control-plane", "DoesNotExist")),
            "",
            id="a provider exempts its namespaces",
        ),
        pytest.param(
            add("namespaceSelector", requirement("managed-by", "NotIn", "provider")),
            "",
            id="by a value",
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
            id="by a label",
        ),
        pytest.param(
            lambda _, hook: hook.pop("objectSelector"), "objectSelector", id="A15 is taken away"
        ),
        pytest.param(
            lambda _, hook: hook.update(matchPolicy="Exact", reinvocationPolicy="IfNeeded"),
            "",
            id="policies of which the flags say nothing",
        ),
        pytest.param(
            lambda _, hook: hook.update(matchConditions=[{"name": "x", "expression": "true"}]),
            "",
            id="conditions",
        ),
    ],
)
def test_what_is_put_back_and_what_is_left(change: Change, different: str) -> None:
    there = as_stored(wanted())
    change(there, there["webhooks"][0])
    assert " ".join(registration_drift.differences(there, wanted())) == different


def test_namespaces_that_are_asked_about_are_the_flags_and_no_others() -> None:
    one = wanted("--vpa-object-namespace=shop")
    there = as_stored(one)
    assert registration_drift.differences(there, one) == ()
    replace("namespaceSelector", requirement(NAMES, "In", "shop", "x"))(there, there["webhooks"][0])
    assert registration_drift.differences(there, one) == ("namespaceSelector",)


def test_a_bundle_that_somebody_else_looks_after_is_right_whatever_it_is() -> None:
    assert registration_drift.differences(as_stored(wanted(bundle=OTHER)), wanted(bundle=b"")) == ()
    assert registration_drift.differences(as_stored(wanted(bundle=b"")), wanted(bundle=b"")) == ()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        pytest.param(lambda *_: None, "", id="nothing"),
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
        pytest.param(lambda there, _: there.pop("webhooks"), "", id="no webhook at all"),
    ],
)
def test_exemptions_that_stay_are_named(change: Change, told: str) -> None:
    there = as_stored(wanted())
    change(there, there["webhooks"][0])
    assert " ".join(registration_drift.exemptions(there, wanted())) == told


# How hard we insist


def puts_back(seen: list[float], insistence: RestoreBackoff) -> list[float]:
    """The times at which the configuration was put back, of those at which it was different."""
    written = []
    for now in seen:
        if insistence.allows(now):
            insistence = insistence.after(now)
            written.append(now)
    return written


@pytest.mark.parametrize(
    ("seen", "want"),
    [
        pytest.param([5], [5], id="the first time at once"),
        pytest.param([5, 24, 25], [5, 25], id="the second time after the first pause"),
        pytest.param([*range(0, 150, 10)], [0, 20, 60, 140], id="pauses double"),
        pytest.param([0, 20, 60, 1259], [0, 20, 60, 1259], id="long after, it is still the fight"),
        pytest.param(
            [0, 20, 60, 1260, 1270, 1280], [0, 20, 60, 1260, 1280], id="quiet time ends the fight"
        ),
    ],
)
def test_the_more_often_it_was_put_back_the_longer_we_wait(
    seen: list[float], want: list[float]
) -> None:
    assert puts_back(seen, RestoreBackoff()) == want


def fight(seconds: int) -> list[tuple[int, str]]:
    """Two replicas with different flags, who look every ten seconds: who wrote when."""
    sides = {"old": RestoreBackoff(), "new": RestoreBackoff()}
    stored, written = "new", []  # the newer one registers at its start
    for now in range(1, seconds):
        for side, offset in (("old", 3), ("new", 7)):
            if now % 10 == offset and stored != side and sides[side].allows(now):
                sides[side] = sides[side].after(now)
                stored = side
                written.append((now, side))
    return written


def test_a_rollout_of_a_minute_costs_a_handful_of_writes() -> None:
    assert [side for _, side in fight(60)] == ["old", "new", "old", "new"]


def test_a_fight_without_end_is_one_write_of_each_side_per_ten_minutes() -> None:
    hours = 24
    for side in ("old", "new"):
        late = [at for at, who in fight(hours * 3600) if at > 3600 and who == side]
        assert 0 < len(late) <= (hours - 1) * 6


def test_the_survivor_of_a_fight_has_the_last_word_within_its_pause() -> None:
    insistence = RestoreBackoff()
    for _ in range(50):
        insistence = insistence.after(insistence.last + 600)
    assert not insistence.allows(insistence.last + 599)
    assert insistence.allows(insistence.last + 600)
