"""Who may do what: denials, roles, reviews, tokens; and what everybody may read."""

from typing import Any

from recorded_requests.case import (
    APPS,
    MAPS,
    MERGE,
    NS,
    Case,
    Object,
    Request,
    case,
    delete,
    get,
    named,
    patch,
    pod,
    post,
    put,
)

RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}"
REVIEWS = "/apis/authorization.k8s.io/v1"


def access() -> list[Case]:
    """Tokens, denials and reviews."""

    def role(*rules: Object) -> tuple[Request, ...]:
        return (
            post(f"{NS}/serviceaccounts", named("robot")),
            post(f"{RBAC}/roles", named("r", rules=list(rules))),
            post(
                f"{RBAC}/rolebindings",
                named(
                    "r",
                    roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
                    subjects=[{"kind": "ServiceAccount", "name": "robot", "namespace": "{ns}"}],
                ),
            ),
        )

    def rule(*verbs: str, resource: str = "configmaps", group: str = "", **more: Any) -> Object:
        return {"apiGroups": [group], "resources": [resource], "verbs": list(verbs), **more}

    robot = [post(f"{NS}/serviceaccounts", named("robot"))]
    bound = named(
        "b", roleRef={"kind": "Role", "name": "r"}, subjects=[{"kind": "User", "name": "jane"}]
    )
    attributes = {"namespace": "{ns}", "verb": "get", "resource": "configmaps"}
    # Authorization reads a new binding a moment later.
    reader = get(MAPS, user="robot", until=("kind", "ConfigMapList"))
    token = f"{NS}/serviceaccounts/robot/token"
    return [
        case("access-denied-get", get(f"{MAPS}/c", user="robot"), before=robot),
        case("access-denied-list", get(MAPS, user="robot"), before=robot),
        case("access-denied-watch", get(f"{MAPS}?watch=true", user="robot"), before=robot),
        case("access-denied-list-all", get("/api/v1/pods", user="robot"), before=robot),
        case("access-denied-create", post(MAPS, named("c"), user="robot"), before=robot),
        case("access-denied-update", put(f"{MAPS}/c", named("c"), user="robot"), before=robot),
        case(
            "access-denied-patch",
            patch(f"{APPS}/deployments/w", {}, MERGE, user="robot"),
            before=robot,
        ),
        case("access-denied-delete", delete(f"{MAPS}/c", user="robot"), before=robot),
        case("access-denied-delete-all", delete(MAPS, user="robot"), before=robot),
        case(
            "access-denied-resize",
            patch(f"{NS}/pods/p/resize", {}, user="robot"),
            before=[*robot, post(f"{NS}/pods", pod())],
        ),
        case("access-denied-evict", post(f"{NS}/pods/p/eviction", {}, user="robot"), before=robot),
        case("access-denied-scale", get(f"{APPS}/deployments/w/scale", user="robot"), before=robot),
        case("access-denied-nodes", get("/api/v1/nodes", user="robot"), before=robot),
        case("access-denied-path", get("/metrics", user="robot"), before=robot),
        case("access-denied-unknown-resource", get(f"{NS}/unicorns", user="robot"), before=robot),
        case("access-discovery", get("/apis/coordination.k8s.io/v1", user="robot"), before=robot),
        case(
            "access-allowed",
            reader,
            get(f"{MAPS}/c", user="robot"),
            post(MAPS, named("c"), user="robot"),
            before=role(rule("get", "list")),
        ),
        case(
            "access-resource-names",
            reader,
            get(f"{MAPS}/c", user="robot"),
            get(f"{MAPS}/d", user="robot"),
            before=role(rule("list"), rule("get", resourceNames=["c"])),
        ),
        case(
            "access-stars",
            reader,
            delete(f"{MAPS}/c", user="robot"),
            before=role(rule("*", resource="*", group="*")),
        ),
        case(
            "access-escalation",
            reader,
            post(
                f"{RBAC}/roles",
                named("more", rules=[rule("delete", resource="secrets")]),
                user="robot",
            ),
            before=role(
                rule("get", "list"),
                rule("create", resource="roles", group="rbac.authorization.k8s.io"),
            ),
        ),
        case(
            "access-review-self",
            post(
                f"{REVIEWS}/selfsubjectaccessreviews", {"spec": {"resourceAttributes": attributes}}
            ),
        ),
        case(
            "access-review-self-denied",
            post(
                f"{REVIEWS}/selfsubjectaccessreviews",
                {"spec": {"resourceAttributes": attributes}},
                user="robot",
            ),
            before=robot,
        ),
        case(
            "access-review-subject",
            post(
                f"{REVIEWS}/subjectaccessreviews",
                {"spec": {"resourceAttributes": attributes, "user": "someone"}},
            ),
        ),
        case("access-review-empty", post(f"{REVIEWS}/selfsubjectaccessreviews", {"spec": {}})),
        case(
            "access-review-no-user",
            post(f"{REVIEWS}/subjectaccessreviews", {"spec": {"resourceAttributes": attributes}}),
        ),
        case(
            "access-review-both",
            post(
                f"{REVIEWS}/selfsubjectaccessreviews",
                {
                    "spec": {
                        "resourceAttributes": attributes,
                        "nonResourceAttributes": {"path": "/", "verb": "get"},
                    }
                },
            ),
        ),
        case(
            "access-review-path",
            post(
                f"{REVIEWS}/selfsubjectaccessreviews",
                {"spec": {"nonResourceAttributes": {"path": "/metrics", "verb": "get"}}},
            ),
        ),
        case("access-token", post(token, {"spec": {"expirationSeconds": 3600}}), before=robot),
        case("access-token-short", post(token, {"spec": {"expirationSeconds": 10}}), before=robot),
        case("access-token-missing-account", post(token, {"spec": {}})),
        case(
            "access-token-missing-pod",
            post(
                token,
                {"spec": {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "p"}}},
            ),
            before=robot,
        ),
        case(
            "access-token-bad-kind",
            post(
                token,
                {"spec": {"boundObjectRef": {"kind": "Service", "apiVersion": "v1", "name": "p"}}},
            ),
            before=robot,
        ),
        case(
            "access-role-changed-reference",
            patch(f"{RBAC}/rolebindings/r", {"roleRef": {"name": "s"}}, MERGE),
            before=role(rule("get")),
        ),
        case(
            "access-role-no-verbs",
            post(f"{RBAC}/roles", named("r", rules=[{"apiGroups": [""], "resources": ["pods"]}])),
        ),
        *(
            case(f"access-role-{name}", post(f"{RBAC}/roles", named("r", rules=[one])))
            for name, one in (
                ("path", {"nonResourceURLs": ["/x"], "verbs": ["get"]}),
                ("no-resources", {"apiGroups": [""], "verbs": ["get"]}),
                ("no-groups", {"resources": ["pods"], "verbs": ["get"]}),
                ("unknown-field", rule("get", hue=1)),
                ("verbs-text", {**rule("get"), "verbs": "get"}),
            )
        ),
        *(
            case(f"access-binding-{name}", post(f"{RBAC}/rolebindings", {**bound, **fields}))
            for name, fields in (
                ("defaults", {}),
                ("other-kind", {"roleRef": {"kind": "Robot", "name": "r"}}),
                ("other-group", {"roleRef": {"apiGroup": "x", "kind": "Role", "name": "r"}}),
                ("subject-kind", {"subjects": [{"kind": "Robot", "name": "x"}]}),
                ("subject-unnamed", {"subjects": [{"kind": "User"}]}),
                ("account-name", {"subjects": [{"kind": "ServiceAccount", "name": "X_"}]}),
            )
        ),
        case(
            "access-binding-escalation",
            reader,
            post(f"{RBAC}/roles", named("more", rules=[rule("delete", resource="secrets")])),
            post(
                f"{RBAC}/rolebindings",
                {**bound, "roleRef": {"kind": "Role", "name": "more"}},
                user="robot",
            ),
            post(
                f"{RBAC}/rolebindings",
                {**bound, "roleRef": {"kind": "Role", "name": "none"}},
                user="robot",
            ),
            before=role(
                rule("get", "list"),
                rule("create", resource="rolebindings", group="rbac.authorization.k8s.io"),
            ),
        ),
        case("access-binding-no-role", post(f"{RBAC}/rolebindings", named("r"))),
    ]


def discovery() -> list[Case]:
    return [
        case("discovery-coordination", get("/apis/coordination.k8s.io/v1")),
        case("discovery-events", get("/apis/events.k8s.io/v1")),
        case("discovery-unknown-group", get("/apis/unicorns.example.com")),
        case("discovery-unknown-version", get("/apis/apps/v9")),
        case("discovery-group", get("/apis/apps")),
        case("discovery-api", get("/api/v9")),
        case("healthz", get("/healthz")),
        case("livez", get("/livez")),
        case("readyz", get("/readyz")),
    ]


CASES = [*access(), *discovery()]
