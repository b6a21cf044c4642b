"""What a configuration of webhooks may say."""

from typing import Any

from recorded_requests.case import MERGE, Case, Object, case, delete, named, patch, post

MUTATING = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
VALIDATING = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"

RULE: Object = {
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "operations": ["CREATE"],
    "resources": ["pods"],
}
# It never matches, so that nobody is asked who isn't there.
HOOK: Object = {
    "name": "hook.example.com",
    "clientConfig": {"url": "https://127.0.0.1:9/x"},
    "rules": [RULE],
    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "nobody"}},
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
}


def _case(name: str, *hooks: Object, path: str = MUTATING) -> Case:
    return case(f"hook-rules-{name}", post(path, named("{ns}", webhooks=list(hooks))))


def _with(name: str, /, **fields: Any) -> Case:
    return _case(name, {**HOOK, **fields})


def _without(field: str) -> Case:
    hook = {name: value for name, value in HOOK.items() if name != field}
    return _case(f"without-{field.lower()}", hook)


def fields() -> list[Case]:
    unclear = [
        {"key": "a", "operator": "Odd"},
        {"key": "b", "operator": "In"},
        {"key": "c d", "operator": "Exists", "values": ["x"]},
    ]
    one = post(MUTATING, named("{ns}", webhooks=[HOOK]))
    by_name = f"{MUTATING}/{{ns}}"
    return [
        _case("same-name", HOOK, HOOK),
        _case("validating-reinvoked", {**HOOK, "reinvocationPolicy": "IfNeeded"}, path=VALIDATING),
        *(_without(name) for name in ("name", "clientConfig", "sideEffects", "rules")),
        _with("name-upper", name="A.b.c"),
        _with("match-policy", matchPolicy="Odd"),
        _with("reinvocation", reinvocationPolicy="Odd"),
        _with("timeout-zero", timeoutSeconds=0),
        _with("timeout-null", timeoutSeconds=None),
        _with("reviews-unknown", admissionReviewVersions=["v2"]),
        _with("reviews-twice", admissionReviewVersions=["v1", "v1"]),
        _with("reviews-upper", admissionReviewVersions=["V1", "v1"]),
        _with("no-rules", rules=[]),
        _with("selector", namespaceSelector={"matchExpressions": unclear}),
        _with("selector-labels", objectSelector={"matchLabels": {"a b": "c d"}}),
        _with("bundle", clientConfig={"url": "https://a/x", "caBundle": "%"}),
        _with("bundle-no-certificate", clientConfig={"url": "https://a/x", "caBundle": "YWJj"}),
        _case("no-hooks"),
        case(
            "hook-rules-change",
            patch(by_name, {"webhooks": [{"name": "hook.example.com", "timeoutSeconds": 40}]}),
            patch(by_name, {"webhooks": [{"name": "hook.example.com", "timeoutSeconds": 20}]}),
            patch(by_name, {"webhooks": None}, MERGE),
            delete(by_name),
            before=[one],
        ),
    ]


def rules() -> list[Case]:
    def rule(name: str, /, **fields: Any) -> Case:
        return _with(f"rule-{name}", rules=[{**RULE, **fields}])

    return [
        _with("rule-empty", rules=[{}]),
        rule("operations-star", operations=["*", "CREATE"]),
        rule("groups-star", apiGroups=["*", "a"]),
        rule("versions-star", apiVersions=["*", "v1"]),
        rule("version-empty", apiVersions=[""]),
        rule("resource-empty", resources=[""]),
        rule("resources-all", resources=["*/*", "pods"]),
        rule("resources-star", resources=["*", "pods"]),
        rule("resources-star-last", resources=["pods", "*"]),
        rule("subresources-star", resources=["pods/*", "pods/status"]),
        rule("subresource-of-all", resources=["*/status", "pods/status"]),
        rule("scope", scope="Odd"),
    ]


def clients() -> list[Case]:
    def url(name: str, text: str) -> Case:
        return _with(f"url-{name}", clientConfig={"url": text})

    def service(name: str, /, **fields: Any) -> Case:
        whole = {"name": "a", "namespace": "b", **fields}
        return _with(f"service-{name}", clientConfig={"service": whole})

    return [
        url("query", "https://a/x?y=1"),
        url("fragment", "https://a/x#y"),
        url("user", "https://me:you@a/x"),
        url("no-host", "https:///x"),
        url("space", "https://a b/x"),
        url("port", "https://a:x/"),
        url("relative", "x"),
        url("empty", ""),
        service("plain"),
        service("path-without-slash", path="x"),
        service("path-slashes", path="//"),
        service("path-empty-segment", path="/a//b"),
        service("path-upper", path="/A_"),
        service("path-slash-at-end", path="/a/"),
        service("port-zero", port=0),
        service("port-large", port=70000),
        service("no-name", name=""),
        service("no-namespace", namespace=""),
    ]


CASES = [*fields(), *rules(), *clients()]
