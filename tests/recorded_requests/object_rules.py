"""What Services, claims, Secrets, ConfigMaps and smaller kinds may hold, and what may change."""

from typing import Any

from recorded_requests.case import (
    JSON_PATCH,
    MAPS,
    MERGE,
    NS,
    Case,
    Request,
    case,
    named,
    patch,
    post,
    put,
)

SERVICES = f"{NS}/services"
CLAIMS = f"{NS}/persistentvolumeclaims"
SECRETS = f"{NS}/secrets"

TWO_NAMED = [{"port": 80, "name": "a"}, {"port": 80, "name": "b"}]


def services() -> list[Case]:
    def made(name: str, /, **spec: Any) -> Case:
        ports = spec.pop("ports", [{"port": 80}])
        body = named("s", spec={**({"ports": ports} if ports else {}), **spec})
        return case(f"service-{name}", post(SERVICES, body))

    def with_port(name: str, /, **port: Any) -> Case:
        return made(f"port-{name}", ports=[{"port": 80, **port}])

    def changed(name: str, *requests: Request) -> Case:
        before = [post(SERVICES, named("s", spec={"ports": [{"port": 80}]}))]
        return case(f"service-change-{name}", *requests, before=before)

    return [
        with_port("zero", port=0),
        with_port("name-upper", name="A_"),
        with_port("name-dotted", name="a.b"),
        with_port("protocol", protocol="ICMP"),
        with_port("target-name", targetPort="web"),
        with_port("target-bad-name", targetPort="1--"),
        with_port("target-large", targetPort=70000),
        with_port("application-protocol", appProtocol="a/b/c"),
        with_port("of-node", nodePort=30001),
        made("ports-without-names", ports=[{"port": 80}, {"port": 81}]),
        made("ports-of-one-name", ports=[{"port": 80, "name": "a"}, {"port": 81, "name": "a"}]),
        made("ports-of-one-number", ports=TWO_NAMED),
        made("bad-selector", selector={"a b": "c d"}),
        made("affinity-unknown", sessionAffinity="Perhaps"),
        made("affinity", sessionAffinity="ClientIP"),
        made(
            "affinity-too-long",
            sessionAffinity="ClientIP",
            sessionAffinityConfig={"clientIP": {"timeoutSeconds": 100000}},
        ),
        made("unknown-type", type="Odd"),
        made("headless", clusterIP="None", ports=[]),
        made("headless-selector", clusterIP="None", selector={"a": "b"}),
        made("headless-node-port", clusterIP="None", type="NodePort"),
        made("external-bad-name", type="ExternalName", externalName="A_b", ports=[]),
        made("external-address", type="ExternalName", externalName="a.b", clusterIP="10.0.0.1"),
        made("traffic", internalTrafficPolicy="Odd"),
        case("service-no-spec", post(SERVICES, named("s"))),
        case("service-long-name", post(SERVICES, named("s" * 64, spec={"ports": TWO_NAMED[:1]}))),
        case("service-dotted-name", post(SERVICES, named("a.b", spec={"ports": TWO_NAMED[:1]}))),
        changed("address", patch(f"{SERVICES}/s", {"spec": {"clusterIP": "10.0.0.99"}}, MERGE)),
        changed("put", put(f"{SERVICES}/s", named("s", spec={"ports": [{"port": 81}]}))),
        changed(
            "to-external",
            patch(
                f"{SERVICES}/s",
                {"spec": {"type": "ExternalName", "externalName": "x.example.com"}},
                MERGE,
            ),
        ),
        changed("ports", patch(f"{SERVICES}/s", {"spec": {"ports": [{"port": 82}]}})),
    ]


def claims() -> list[Case]:
    size = {"requests": {"storage": "1Gi"}}

    def made(name: str, /, **spec: Any) -> Case:
        whole = {"accessModes": ["ReadWriteOnce"], "resources": size, **spec}
        return case(f"claim-{name}", post(CLAIMS, named("c", spec=whole)))

    before = [post(CLAIMS, named("c", spec={"accessModes": ["ReadWriteOnce"], "resources": size}))]
    return [
        made("bad-mode", accessModes=["Odd"]),
        made("mode-alone", accessModes=["ReadWriteOncePod", "ReadWriteOnce"]),
        made("no-size", resources={}),
        made("size-zero", resources={"requests": {"storage": "0"}}),
        made("size-negative", resources={"requests": {"storage": "-1"}}),
        made("size-canonical", resources={"requests": {"storage": "1024Mi"}}),
        made("bad-class", storageClassName="A_"),
        made("bad-volume-mode", volumeMode="Odd"),
        made("bad-selector", selector={"matchExpressions": [{"key": "a", "operator": "Odd"}]}),
        case("claim-no-spec", post(CLAIMS, named("c"))),
        case(
            "claim-label",
            patch(f"{CLAIMS}/c", {"metadata": {"labels": {"a": "b"}}}, MERGE),
            before=before,
        ),
    ]


def data() -> list[Case]:
    """Secrets and ConfigMaps."""

    def secret(name: str, /, **fields: Any) -> Case:
        return case(f"secret-{name}", post(SECRETS, named("s", **fields)))

    def config_map(name: str, /, **fields: Any) -> Case:
        return case(f"map-{name}", post(MAPS, named("c", **fields)))

    fixed_secret = [post(SECRETS, named("s", data={"a": "YQ=="}, immutable=True))]
    fixed_map = [post(MAPS, named("c", data={"a": "b"}, immutable=True))]
    pair = {"tls.crt": "YQ==", "tls.key": "YQ=="}
    return [
        secret("account-token", type="kubernetes.io/service-account-token"),
        secret("docker", type="kubernetes.io/dockercfg"),
        secret("docker-bad", type="kubernetes.io/dockercfg", data={".dockercfg": "YQ=="}),
        secret(
            "docker-json", type="kubernetes.io/dockerconfigjson", data={".dockerconfigjson": "e30="}
        ),
        secret(
            "docker-json-empty",
            type="kubernetes.io/dockerconfigjson",
            data={".dockerconfigjson": ""},
        ),
        secret("basic", type="kubernetes.io/basic-auth"),
        secret("ssh", type="kubernetes.io/ssh-auth", data={"ssh-privatekey": ""}),
        secret("tls-no-pair", type="kubernetes.io/tls", data=pair),
        secret("bad-key", data={"a b": "YQ=="}),
        secret("key-dots", data={"..a": "YQ=="}),
        secret("key-dot", data={".": "YQ=="}),
        secret("texts", stringData={"a": "b", "c": ""}, data={"a": "YQ=="}),
        secret("bad-padding", data={"a": "YQ="}),
        secret("empty", data={}),
        case(
            "secret-immutable",
            patch(f"{SECRETS}/s", {"data": {"a": "Yg=="}}, MERGE),
            patch(f"{SECRETS}/s", {"immutable": False}, MERGE),
            before=fixed_secret,
        ),
        case(
            "secret-put-without-type",
            put(f"{SECRETS}/s", named("s", data={"a": "Yg=="})),
            before=[post(SECRETS, named("s", type="a/b"))],
        ),
        config_map("empty", data={}, binaryData={}),
        config_map("nothing"),
        config_map("key-dots", data={"..": "a"}),
        config_map("key-long", data={"a" * 254: "b"}),
        config_map("immutable-null", data={"a": "b"}, immutable=None),
        config_map("generation-negative", meta={"generation": -1}),
        config_map("generation-text", meta={"generation": "1"}),
        case(
            "map-mutable-again",
            put(f"{MAPS}/c", named("c", data={"a": "b"})),
            patch(f"{MAPS}/c", {"metadata": {"labels": {"a": "b"}}}, MERGE),
            before=fixed_map,
        ),
        case("map-bad-name", post(MAPS, named("A_"))),
        case("map-slash", post(MAPS, named("a/b"))),
        case(
            "namespace-finalizer",
            post("/api/v1/namespaces?dryRun=All", named("{ns}-y", spec={"finalizers": ["odd"]})),
        ),
        case("namespace-dotted", post("/api/v1/namespaces?dryRun=All", named("a.b"))),
    ]


def others() -> list[Case]:
    """Nulls and empty texts, endpoints, priority classes, revisions."""
    revisions = "/apis/apps/v1/namespaces/{ns}/controllerrevisions"
    slices = "/apis/discovery.k8s.io/v1/namespaces/{ns}/endpointslices"
    priorities = "/apis/scheduling.k8s.io/v1/priorityclasses"
    empty = {"ports": [{"port": 80, "name": ""}], "selector": {}, "externalName": ""}
    nulls = {"ports": [{"port": 80, "name": None}], "selector": {"a": None}, "clusterIP": None}
    subset = {"addresses": [{"ip": "1.2.3.4"}], "ports": [{"port": 80}]}
    two = named("c", data={"a": "b", "c": "d"})

    def priority(name: str, **fields: Any) -> Case:
        return case(f"priority-{name}", post(priorities, named("{ns}", **{"value": 5, **fields})))

    return [
        case("null-in-map", post(MAPS, named("c", data={"a": None, "b": "c"}))),
        case("null-in-binary", post(MAPS, named("c", binaryData={"a": None}))),
        case("null-in-secret", post(SECRETS, named("s", data={"a": None}))),
        case("null-in-texts", post(SECRETS, named("s", stringData={"a": None}))),
        case(
            "null-in-metadata",
            post(MAPS, named("c", meta={"labels": {"a": None}, "annotations": {"b": None}})),
        ),
        case("null-in-service", post(SERVICES, named("s", spec=nulls))),
        case("empty-in-service", post(SERVICES, named("s", spec=empty))),
        case("null-strategic", patch(f"{MAPS}/c", {"data": {"a": None}}), before=[post(MAPS, two)]),
        case(
            "null-json-patch",
            patch(f"{MAPS}/c", [{"op": "replace", "path": "/data/a", "value": None}], JSON_PATCH),
            before=[post(MAPS, two)],
        ),
        case(
            "namespace-no-finalizers",
            post("/api/v1/namespaces?dryRun=All", named("{ns}-z", spec={"finalizers": []})),
        ),
        case("endpoints", post(f"{NS}/endpoints", named("e", subsets=[subset]))),
        case(
            "slice",
            post(
                slices,
                named(
                    "e",
                    addressType="IPv4",
                    endpoints=[{"addresses": ["1.2.3.4"]}],
                    ports=[{"port": 80}],
                ),
            ),
        ),
        priority("large", value=2_000_000_000),
        priority("preemption", preemptionPolicy="Odd"),
        case("priority-of-the-system", post(priorities, named("system-x", value=5))),
        case(
            "priority-changed",
            patch(f"{priorities}/{{ns}}", {"value": 6}, MERGE),
            before=[post(priorities, named("{ns}", value=5))],
        ),
        case("revision-negative", post(revisions, named("c", revision=-1, data={"a": 1}))),
        case("revision-without-data", post(revisions, named("c", revision=1))),
        case(
            "revision-changed",
            patch(f"{revisions}/c", {"data": {"a": 2}}, MERGE),
            patch(f"{revisions}/c", {"revision": 3}, MERGE),
            before=[post(revisions, named("c", revision=1, data={"a": 1}))],
        ),
    ]


CASES = [*services(), *claims(), *data(), *others()]
