"""Reading: lists, pages, watches, tables, bare metadata, discovery."""

from recorded_requests.case import (
    MAPS,
    NS,
    PODS,
    Case,
    Request,
    case,
    get,
    named,
    patch,
    pod,
    post,
)

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
BARE = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
BARE_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"

THREE = [
    post(MAPS, named(name, meta={"labels": {"n": name}}, data={"a": name}))
    for name in ("a", "b", "c")
]
# A controller creates a config map without this label in every namespace.
OURS = "labelSelector=n"


def lists() -> list[Case]:
    """Return cases of lists and their options."""

    def listed(name: str, query: str, *more: str) -> Case:
        return case(f"list-{name}", *(get(f"{MAPS}?{one}") for one in (query, *more)), before=THREE)

    return [
        listed("all", OURS),
        listed("pages", f"{OURS}&limit=2", f"{OURS}&limit=2&continue={{continue}}"),
        listed("limit-exact", f"{OURS}&limit=3"),
        listed("limit-zero", f"{OURS}&limit=0"),
        listed("limit-text", "limit=x"),
        listed("limit-negative", f"{OURS}&limit=-1"),
        listed("label", "labelSelector=n%3Da"),
        listed("label-not", f"{OURS},n!%3Da"),
        listed("label-in", "labelSelector=n%20in%20(a,b)"),
        listed("label-notin", f"{OURS},n%20notin%20(a,b)"),
        listed("label-missing", f"{OURS},!m"),
        listed("label-broken", "labelSelector=n%20is%20a"),
        listed("label-bad-value", "labelSelector=n%3Da%20b"),
        listed("label-greater", "labelSelector=n%3E1"),
        listed("field-name", "fieldSelector=metadata.name%3Da"),
        listed("field-not-name", f"{OURS}&fieldSelector=metadata.name!%3Da"),
        listed("field-broken", "fieldSelector=metadata.name"),
        listed("version-zero", f"{OURS}&resourceVersion=0"),
        listed(
            "version-match-exact", f"{OURS}&resourceVersion={{version}}&resourceVersionMatch=Exact"
        ),
        listed(
            "version-match-not-older",
            f"{OURS}&resourceVersion={{version}}&resourceVersionMatch=NotOlderThan",
        ),
        case(
            "list-pods-field-node",
            get(f"{PODS}?fieldSelector=spec.nodeName%3Dx"),
            before=[post(PODS, pod())],
        ),
        case(
            "list-pods-field-phase",
            get(f"{PODS}?fieldSelector=status.phase%3DPending"),
            before=[post(PODS, pod())],
        ),
        case(
            "list-pods-field-phase-not",
            get(f"{PODS}?fieldSelector=status.phase!%3DPending"),
            before=[post(PODS, pod())],
        ),
        case("list-pods-field-unknown", get(f"{PODS}?fieldSelector=spec.hue%3Dx")),
        case("list-unknown-resource", get(f"{NS}/unicorns")),
        case("list-unknown-group", get("/apis/unicorns.example.com/v1/namespaces/{ns}/unicorns")),
        case("list-unknown-version", get("/apis/apps/v9/namespaces/{ns}/deployments")),
        case("list-missing-namespace", get("/api/v1/namespaces/{ns}-not/configmaps")),
        case("get-missing", get(f"{MAPS}/x")),
        case(
            "get-version-zero",
            get(f"{MAPS}/a?resourceVersion=0", until=("kind", "ConfigMap")),
            before=THREE,
        ),
        case("post-collection-unknown", post(f"{NS}/unicorns", named("u"))),
        case("post-missing-namespace", post("/api/v1/namespaces/{ns}-not/configmaps", named("x"))),
        case("patch-collection", patch(MAPS, {})),
        case("get-nothing", get("/nothing")),
        case("get-api-nothing", get("/api/v1/nothing")),
    ]


def watches() -> list[Case]:
    """Return cases of watches that end after a second, and of refused ones."""
    second = "watch=true&timeoutSeconds=1"

    def watched(name: str, query: str) -> Case:
        return case(f"watch-{name}", get(f"{MAPS}?{query}"), before=THREE)

    return [
        watched("from-zero", f"{second}&{OURS}&resourceVersion=0"),
        watched("nothing-new", f"{second}&{OURS}&resourceVersion={{version}}"),
        watched(
            "initial-events-without-bookmarks",
            f"{second}&{OURS}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
        ),
        watched("broken-selector", f"{second}&labelSelector=a%20is%20b"),
        watched("timeout-text", "watch=true&timeoutSeconds=x"),
        case(
            "watch-one",
            get(f"{MAPS}?{second}&resourceVersion=0&fieldSelector=metadata.name%3Db"),
            before=THREE,
        ),
        case(
            "watch-bare",
            get(f"{MAPS}?{second}&resourceVersion=0&fieldSelector=metadata.name%3Db", accept=BARE),
            before=THREE,
        ),
        case("watch-unknown-resource", get(f"{NS}/unicorns?{second}")),
    ]


def forms() -> list[Case]:
    """Return cases of tables and partial metadata."""

    def tables(name: str, path: str, *before: Request) -> Case:
        return case(f"table-{name}", get(path, accept=TABLE), before=before)

    return [
        tables("missing", f"{PODS}/p"),
        case("bare-list", get(f"{MAPS}?{OURS}", accept=BARE_LIST), before=THREE),
        case("bare-one", get(f"{MAPS}/a", accept=BARE), before=THREE),
        case("bare-or-json", get(f"{MAPS}/a", accept=f"{BARE},application/json"), before=THREE),
    ]


CASES = [*lists(), *watches(), *forms()]
