"""Smaller kinds: leases, namespaces, services, config maps, tokens, who may do what."""

from typing import Any

from recorded_requests.case import (
    APPLY,
    JSON_PATCH,
    MAPS,
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


def leases() -> list[Case]:
    def made(name: str, **spec: Any) -> Case:
        return case(f"lease-{name}", post(LEASES, named("l", spec=spec)))

    held = named("l", spec={"holderIdentity": "me", "leaseDurationSeconds": 15})
    candidacy = {"preferredHolder": "x", "strategy": "OldestEmulationVersion"}
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
        case("lease-candidacy", post(LEASES, named("l", spec=candidacy))),
        case(
            "lease-strategy-later",
            patch(f"{LEASES}/l", {"spec": {"strategy": "x", "holderIdentity": "y"}}, MERGE),
            before=[post(LEASES, named("l"))],
        ),
        case("lease-bad-name", post(LEASES, named("A_"))),
        case("lease-delete-yaml", delete(f"{LEASES}/l", accept="application/yaml")),
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


CASES = [*leases(), *small()]
