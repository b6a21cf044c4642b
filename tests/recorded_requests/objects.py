"""Smaller kinds: leases, events, namespaces, services, config maps, tokens, who may do what."""

from typing import Any

from recorded_requests.case import (
    APPLY,
    JSON_PATCH,
    MERGE,
    NS,
    Case,
    case,
    delete,
    get,
    named,
    patch,
    post,
    put,
)

LEASES = "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases"
EVENTS = f"{NS}/events"
NEW_EVENTS = "/apis/events.k8s.io/v1/namespaces/{ns}/events"
MAPS = f"{NS}/configmaps"


def leases() -> list[Case]:
    def made(name: str, **spec: Any) -> Case:
        return case(f"lease-{name}", post(LEASES, named("l", spec=spec)))

    held = named("l", spec={"holderIdentity": "me", "leaseDurationSeconds": 15})
    renewed = {**held, "metadata": {"name": "l", "resourceVersion": "{version}"}}
    return [
        made("minimal"),
        made(
            "held",
            holderIdentity="me",
            leaseDurationSeconds=15,
            acquireTime="2026-11-21T08:25:00.000000Z",
            leaseTransitions=0,
        ),
        made("seconds-only", renewTime="2026-11-21T08:25:00Z"),
        made("millis", renewTime="2026-11-21T08:25:00.123Z"),
        made("duration-zero", leaseDurationSeconds=0),
        made("transitions-negative", leaseTransitions=-1),
        made("duration-text", leaseDurationSeconds="15"),
        made("bad-time", renewTime="now"),
        made("strategy-unknown", strategy="Perhaps"),
        case("lease-no-spec", post(LEASES, named("l"))),
        case("lease-put", put(f"{LEASES}/l", renewed), before=[post(LEASES, held)]),
        case(
            "lease-put-twice",
            put(f"{LEASES}/l", renewed),
            put(f"{LEASES}/l", {**held, "metadata": {"name": "l", "resourceVersion": "1"}}),
            before=[post(LEASES, held)],
        ),
        case("lease-put-without-version", put(f"{LEASES}/l", held), before=[post(LEASES, held)]),
        case("lease-put-missing", put(f"{LEASES}/l", held)),
        case("lease-twice", post(LEASES, held), before=[post(LEASES, held)]),
        case(
            "lease-patch",
            patch(f"{LEASES}/l", {"spec": {"holderIdentity": ""}}, MERGE),
            before=[post(LEASES, held)],
        ),
        case(
            "lease-delete", delete(f"{LEASES}/l"), get(f"{LEASES}/l"), before=[post(LEASES, held)]
        ),
    ]


def events() -> list[Case]:
    about = {"kind": "Pod", "namespace": "{ns}", "name": "p", "uid": "u", "apiVersion": "v1"}
    old = named(
        "p.1",
        involvedObject=about,
        reason="Evicted",
        message="m",
        type="Normal",
        source={"component": "c"},
        firstTimestamp="2026-11-21T08:25:00Z",
        lastTimestamp="2026-11-21T08:25:00Z",
        count=1,
    )
    new = named(
        "p.2",
        regarding=about,
        reason="Evicted",
        note="n",
        type="Normal",
        action="Evict",
        reportingController="example.com/c",
        reportingInstance="c-0",
        eventTime="2026-11-21T08:25:00.000000Z",
    )
    return [
        case("event-create", post(EVENTS, old)),
        case(
            "event-other-namespace",
            post(EVENTS, {**old, "involvedObject": {**about, "namespace": "other"}}),
        ),
        case("event-no-object", post(EVENTS, named("e"))),
        case("event-twice", post(EVENTS, old), before=[post(EVENTS, old)]),
        case(
            "event-count", patch(f"{EVENTS}/p.1", {"count": 2}, MERGE), before=[post(EVENTS, old)]
        ),
        case("event-new", post(NEW_EVENTS, new), get(f"{EVENTS}/p.2")),
        case("event-old-as-new", get(f"{NEW_EVENTS}/p.1"), before=[post(EVENTS, old)]),
        case("event-new-no-action", post(NEW_EVENTS, {**new, "action": ""})),
        case("event-new-no-reason", post(NEW_EVENTS, {**new, "reason": ""})),
        case("event-new-no-controller", post(NEW_EVENTS, {**new, "reportingController": ""})),
        case("event-new-no-time", post(NEW_EVENTS, {**new, "eventTime": None})),
        case("event-new-bad-type", post(NEW_EVENTS, {**new, "type": "Odd"})),
        case("event-new-long-note", post(NEW_EVENTS, {**new, "note": "n" * 1025})),
        case("event-new-long-reason", post(NEW_EVENTS, {**new, "reason": "r" * 129})),
        case(
            "event-series",
            patch(
                f"{NEW_EVENTS}/p.2",
                {"series": {"count": 2, "lastObservedTime": "2026-11-21T08:26:00.000000Z"}},
                MERGE,
            ),
            before=[post(NEW_EVENTS, new)],
        ),
        case("event-generate-name", post(EVENTS, {**old, "metadata": {"generateName": "p-"}})),
        case(
            "event-field-selector",
            get(f"{EVENTS}?fieldSelector=involvedObject.name%3Dp,reason%3DEvicted"),
            before=[post(EVENTS, old)],
        ),
    ]


def small() -> list[Case]:
    """Config maps, secrets, services, namespaces, service accounts, claims."""
    one = named("c", data={"a": "b"})
    service = named("s", spec={"ports": [{"port": 80}], "selector": {"a": "b"}})
    claim = named(
        "c", spec={"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    )
    namespaces = "/api/v1/namespaces"
    return [
        case("map-create", post(MAPS, one)),
        case("map-bad-key", post(MAPS, named("c", data={"a b": "c"}))),
        case("map-number", post(MAPS, named("c", data={"a": 1}))),
        case("map-same-keys", post(MAPS, named("c", data={"a": "b"}, binaryData={"a": "Yg=="}))),
        case("map-bad-binary", post(MAPS, named("c", binaryData={"a": "%"}))),
        case(
            "map-immutable",
            patch(f"{MAPS}/c", {"data": {"a": "x"}}, MERGE),
            before=[post(MAPS, {**one, "immutable": True})],
        ),
        case(
            "map-merge-null",
            patch(f"{MAPS}/c", {"data": {"a": None}}, MERGE),
            before=[post(MAPS, one)],
        ),
        case(
            "map-json-patch",
            patch(
                f"{MAPS}/c",
                [
                    {"op": "copy", "from": "/data/a", "path": "/data/b"},
                    {"op": "remove", "path": "/data/a"},
                ],
                JSON_PATCH,
            ),
            before=[post(MAPS, one)],
        ),
        case(
            "map-json-patch-escape",
            patch(
                f"{MAPS}/c",
                [
                    {"op": "add", "path": "/metadata/annotations", "value": {}},
                    {"op": "add", "path": "/metadata/annotations/a~1b", "value": "c"},
                ],
                JSON_PATCH,
            ),
            before=[post(MAPS, one)],
        ),
        case(
            "map-put-version",
            put(f"{MAPS}/c", {**one, "metadata": {"name": "c", "resourceVersion": "{version}"}}),
            before=[post(MAPS, one)],
        ),
        case(
            "map-apply",
            patch(
                f"{MAPS}/c?fieldManager=me", {**one, "apiVersion": "v1", "kind": "ConfigMap"}, APPLY
            ),
        ),
        case(
            "map-owner-cross",
            post(
                MAPS,
                {
                    **one,
                    "metadata": {
                        "name": "c",
                        "ownerReferences": [
                            {
                                "apiVersion": "v1",
                                "kind": "Pod",
                                "name": "p",
                                "uid": "u",
                                "blockOwnerDeletion": True,
                            }
                        ],
                    },
                },
            ),
        ),
        case(
            "map-generation",
            post(MAPS, {**one, "metadata": {"name": "c", "generation": 5, "labels": {"a": "b"}}}),
        ),
        case("secret-create", post(f"{NS}/secrets", named("s", stringData={"a": "b"}))),
        case("secret-bad-data", post(f"{NS}/secrets", named("s", data={"a": "%"}))),
        case(
            "secret-tls-incomplete",
            post(f"{NS}/secrets", named("s", type="kubernetes.io/tls", data={})),
        ),
        case(
            "secret-type-changed",
            patch(f"{NS}/secrets/s", {"type": "other"}, MERGE),
            before=[post(f"{NS}/secrets", named("s"))],
        ),
        case("service-create", post(f"{NS}/services", service)),
        case("service-no-ports", post(f"{NS}/services", named("s", spec={}))),
        case("service-bad-name", post(f"{NS}/services", {**service, "metadata": {"name": "1s"}})),
        case(
            "service-external",
            post(
                f"{NS}/services",
                named("s", spec={"type": "ExternalName", "externalName": "x.example.com"}),
            ),
        ),
        case(
            "service-external-without-name",
            post(f"{NS}/services", named("s", spec={"type": "ExternalName"})),
        ),
        case("claim-create", post(f"{NS}/persistentvolumeclaims?dryRun=All", claim)),
        case(
            "claim-no-modes",
            post(
                f"{NS}/persistentvolumeclaims",
                named("c", spec={"resources": {"requests": {"storage": "1Gi"}}}),
            ),
        ),
        case("account-create", post(f"{NS}/serviceaccounts", named("robot"))),
        case("namespace-create", post(f"{namespaces}?dryRun=All", named("{ns}-x"))),
        case("namespace-bad-name", post(namespaces, named("N_"))),
        case("namespace-twice", post(namespaces, named("{ns}"))),
        case("namespace-get", get(NS)),
        case("namespace-delete-kube-system", delete(f"{namespaces}/kube-system?dryRun=All")),
        case("namespace-delete-missing", delete(f"{namespaces}/{{ns}}-x")),
        case("namespace-label", patch(NS, {"metadata": {"labels": {"a": "b"}}}, MERGE)),
        case(
            "delete-propagation-orphan",
            delete(f"{MAPS}/c", {"propagationPolicy": "Orphan"}),
            before=[post(MAPS, one)],
        ),
        case(
            "delete-both-propagations",
            delete(f"{MAPS}/c", {"propagationPolicy": "Orphan", "orphanDependents": True}),
            before=[post(MAPS, one)],
        ),
        case(
            "delete-kind-options",
            delete(f"{MAPS}/c", {"kind": "DeleteOptions", "apiVersion": "v1"}),
            before=[post(MAPS, one)],
        ),
        case(
            "delete-other-uid",
            delete(f"{MAPS}/c", {"preconditions": {"uid": "x"}}),
            before=[post(MAPS, one)],
        ),
        case(
            "delete-other-version",
            delete(f"{MAPS}/c", {"preconditions": {"resourceVersion": "1"}}),
            before=[post(MAPS, one)],
        ),
        case(
            "delete-dry-run-body",
            delete(f"{MAPS}/c", {"dryRun": ["All"]}),
            get(f"{MAPS}/c"),
            before=[post(MAPS, one)],
        ),
        case("delete-unknown-option", delete(f"{MAPS}/c", {"hue": 1}), before=[post(MAPS, one)]),
        case("fields-map-strict", post(f"{MAPS}?fieldValidation=Strict", {**one, "hue": 1})),
        case("fields-map-warn", post(f"{MAPS}?fieldValidation=Warn", {**one, "hue": 1})),
    ]


CASES = [*leases(), *events(), *small()]
