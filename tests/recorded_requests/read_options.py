"""Selectors, versions, tokens and headers of reads, down to the odd ones."""

from recorded_requests.case import (
    MAPS,
    NS,
    Case,
    Request,
    case,
    delete,
    get,
    named,
    patch,
    post,
    put,
)
from recorded_requests.custom import VPAS
from recorded_requests.reads import BARE, BARE_LIST, OURS, TABLE, THREE


def _read(name: str, path: str, accept: str = "application/json") -> Case:
    before = THREE if OURS in path or "{version}" in path or path.endswith("/a") else ()
    return case(f"read-{name}", get(path, accept=accept), before=before)


def selectors() -> list[Case]:
    by_label = {
        "comma": "a%3Db%2Cc%20in",
        "comma-first": ",a",
        "comma-twice": "a%2C%2Cb",
        "empty-set": "a%20in%20()",
        "open-set": "a%20in%20(b",
        "set-without-comma": "a%20in%20(b%20c)",
        "set-without-parenthesis": "a%20notin%20b",
        "operator-in-set": "a%20in%20(%3D)",
        "not-not": "!!a",
        "not-equal": "!a%3Db",
        "three-equals": "a%3D%3D%3Db",
        "exclamation": "a!b",
        "greater-nothing": "a%3E",
        "greater-text": "a%3Eb",
        "bad-value": "a%3D-b",
        "long-value": "a%3D" + "b" * 70,
        "parentheses": "(a)",
        "after-set": "a%20in%20(b,c)%20d",
        "word-operator": "a%20exists",
        "no-prefix": "%2Fa",
        "prefix-upper": "A.b%2Fa",
        "no-name": "a%2F",
        "long-key": "a" * 70,
        "two-operators": "a%3D%3C",
    }
    by_field = {
        "pods": ("metadata.uid%3D1", "metadata.name%3Da,", "metadata.name%3Da%5C", "a"),
        "secrets": ("a%3D1", "type!%3DOpaque,metadata.namespace%3D{ns}"),
        "services": ("a%3D1",),
        "replicationcontrollers": ("a%3D1",),
        "events": ("a%3D1",),
        "endpoints": ("a%3D1",),
        "serviceaccounts": ("a%3D1",),
    }
    of_groups = (
        ("batch/v1", "jobs", "a%3D1"),
        ("batch/v1", "cronjobs", "a%3D1"),
        ("apps/v1", "replicasets", "status.replicas%3D1"),
        ("events.k8s.io/v1", "events", "note%3D1"),
        ("coordination.k8s.io/v1", "leases", "spec.holderIdentity%3D1"),
        ("autoscaling.k8s.io/v1", "verticalpodautoscalers", "a%3D1"),
    )
    return [
        *(
            _read(f"label-{name}", f"{MAPS}?labelSelector={text}")
            for name, text in by_label.items()
        ),
        *(
            _read(f"field-{plural}-{index}", f"{NS}/{plural}?fieldSelector={text}")
            for plural, texts in by_field.items()
            for index, text in enumerate(texts)
        ),
        *(
            _read(
                f"field-{plural}", f"/apis/{group}/namespaces/{{ns}}/{plural}?fieldSelector={text}"
            )
            for group, plural, text in of_groups
        ),
    ]


def options() -> list[Case]:
    """Versions, pages and the rest of a list's and a watch's options."""
    lists = {
        "limit-huge": "limit=99999999999999999999",
        "limit-empty": "limit=",
        "limit-plus": f"{OURS}&limit=%2B1",
        "limit-underscore": "limit=1_0",
        "timeout-text": "timeoutSeconds=x",
        "bookmarks-word": f"{OURS}&allowWatchBookmarks=maybe",
        "watch-zero": f"{OURS}&watch=0",
        "watch-false": f"{OURS}&watch=False",
        "initial-events-false": "sendInitialEvents=false",
        "version-negative": "resourceVersion=-1",
        "version-fraction": "resourceVersion=1.5",
        "match-empty": f"{OURS}&resourceVersionMatch=",
        "match-odd": "resourceVersionMatch=Odd",
        "match-and-more": "resourceVersionMatch=Exact&continue=abc&sendInitialEvents=true",
        "token-short": "limit=1&continue=x&resourceVersion=0",
        "token-without-start": "continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MX0",
        "token-of-another": "continue=eyJ2IjoiejEiLCJydiI6MX0",
    }
    second = f"watch=true&timeoutSeconds=1&{OURS}"
    watches = {
        "version-negative": "resourceVersion=-1",
        "stream-version-text": (
            "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=x"
        ),
        "stream-continue": "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&continue=x",
        "match-exact": "resourceVersionMatch=Exact",
        "continue": "continue=x",
        "limit": "limit=1&resourceVersion={version}",
    }
    return [
        *(_read(f"list-{name}", f"{MAPS}?{query}") for name, query in lists.items()),
        *(_read(f"watch-{name}", f"{MAPS}?{second}&{query}") for name, query in watches.items()),
        _read("watch-word", f"{NS}/secrets?watch=maybe&timeoutSeconds=1"),
        _read("watch-empty", f"{NS}/secrets?watch=&timeoutSeconds=1"),
        _read("version-text-custom", f"{VPAS}/x?resourceVersion=x"),
    ]


def forms() -> list[Case]:
    """What ``Accept`` and ``Content-Type`` ask for."""

    def sent(name: str, *requests: Request) -> Case:
        return case(f"form-{name}", *requests, before=THREE)

    one = f"{MAPS}/a"
    return [
        _read("html-one", one, "text/html"),
        _read("html-custom", VPAS, "text/html"),
        _read("html-watch", f"{MAPS}?watch=1&timeoutSeconds=1", "text/html"),
        _read("yaml-watch", f"{MAPS}?watch=1&timeoutSeconds=1", "application/yaml"),
        _read("yaml-custom", f"{VPAS}/x", "application/yaml"),
        _read("application-star", one, "application/*"),
        _read("protobuf-or-json", one, "application/vnd.kubernetes.protobuf;as=X,application/json"),
        _read("bare-list-of-one", one, BARE_LIST),
        _read("bare-deployments", "/apis/apps/v1/namespaces/{ns}/deployments", BARE),
        _read("bare-events", "/apis/events.k8s.io/v1/namespaces/{ns}/events", BARE),
        _read("bare-roles", "/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/roles", BARE),
        _read("custom-nothing", "/apis/autoscaling.k8s.io/v1/namespaces/{ns}/nothings"),
        _read("custom-other-version", "/apis/autoscaling.k8s.io/v7/namespaces/{ns}/nothings"),
        _read("core-other-version", "/api/v9/pods"),
        sent("post-text", post(MAPS, b"x", content_type="text/plain; charset=utf-8")),
        sent("post-text-custom", post(VPAS, b"x", content_type="text/plain")),
        sent("post-html", post(MAPS, named("x"), accept="text/html")),
        sent("post-table", post(MAPS, named("x"), accept=TABLE)),
        sent("post-bare", post(MAPS, named("x"), accept=BARE)),
        sent("post-bare-list", post(MAPS, named("x"), accept=BARE_LIST)),
        sent("put-xml", put(one, b"x", content_type="application/xml")),
        sent("patch-json", patch(one, b"{}", "application/json")),
        sent("patch-text-missing", patch(f"{MAPS}/x", b"{}", "text/plain")),
        sent("delete-bare", delete(one, accept=BARE)),
        sent("delete-yaml-missing", delete(f"{MAPS}/x", accept="application/yaml")),
    ]


CASES = [*selectors(), *options(), *forms()]
