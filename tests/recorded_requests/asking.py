"""Bodies that ask for something and aren't stored, decoded more or less strictly."""

from typing import Any

from recorded_requests.case import (
    APPS,
    JSON_PATCH,
    MERGE,
    NS,
    POD,
    STRATEGIC,
    Case,
    Object,
    case,
    named,
    patch,
    pod,
    post,
    put,
    workload,
)

LEVELS = ("Strict", "Warn", "Ignore")
SCALE = f"{APPS}/deployments/w/scale"
TOKEN = f"{NS}/serviceaccounts/robot/token"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def evictions() -> list[Case]:
    eviction = {"apiVersion": "policy/v1", **named("p")}
    bodies: dict[str, Any] = {
        "nested": {**eviction, "metadata": {"name": "p", "odd": 1}, "deleteOptions": {"x": 1}},
        "twice": b'{"metadata":{"name":"p"},"metadata":{"name":"p"}}',
        "bad-grace": {**eviction, "deleteOptions": {"gracePeriodSeconds": "x"}},
        "other-version": {**eviction, "apiVersion": "policy/v2", "kind": "Eviction"},
        "old-version": {**eviction, "apiVersion": "policy/v1beta1", "kind": "Eviction"},
        "broken": b"{",
        "list": b"[]",
    }
    return [
        *_levels("evict", f"{POD}/eviction", {**eviction, "hue": 1}, pod()),
        *(
            case(
                f"asking-evict-{name}",
                post(f"{POD}/eviction?dryRun=All&fieldValidation=Strict", body),
                before=[post(f"{NS}/pods", pod())],
            )
            for name, body in bodies.items()
        ),
    ]


def bindings() -> list[Case]:
    binding = named("p", target={"kind": "Node", "name": "n"})
    return [
        *_levels("bind", f"{POD}/binding", {**binding, "hue": 1}, pod()),
        case(
            "asking-bind-nested",
            post(
                f"{POD}/binding?dryRun=All&fieldValidation=Strict",
                {**binding, "target": {"kind": "Node", "name": "n", "odd": 1}},
            ),
            before=[post(f"{NS}/pods", pod())],
        ),
    ]


def _levels(name: str, path: str, body: Object, stored: Object) -> list[Case]:
    return [
        case(
            f"asking-{name}-{level.lower()}",
            post(f"{path}?dryRun=All&fieldValidation={level}", body),
            before=[post(f"{NS}/pods", stored)],
        )
        for level in (*LEVELS, "Odd")
    ]


def scales() -> list[Case]:
    made = [post(f"{APPS}/deployments", workload())]
    scale = named("w", spec={"replicas": 2, "x": 1}, hue=1)
    strategic = patch(f"{SCALE}?dryRun=All&fieldValidation=Strict", {"hue": 1}, STRATEGIC)
    added = [{"op": "add", "path": "/hue", "value": 1}]
    return [
        *(
            case(
                f"asking-scale-{level.lower()}",
                put(f"{SCALE}?dryRun=All&fieldValidation={level}", scale),
                before=made,
            )
            for level in (*LEVELS, "Odd")
        ),
        case("asking-scale-strategic-strict", strategic, before=made),
        case("asking-scale-merge-warn", patch(f"{SCALE}?dryRun=All", scale, MERGE), before=made),
        case(
            "asking-scale-json-patch-ignore",
            patch(f"{SCALE}?dryRun=All&fieldValidation=Ignore", added, JSON_PATCH),
            before=made,
        ),
        case(
            "asking-scale-missing-strict",
            put(f"{SCALE}?fieldValidation=Strict", scale),
            patch(f"{SCALE}?fieldValidation=Odd", {}, MERGE),
        ),
        case(
            "asking-scale-other-kind",
            put(SCALE, {"apiVersion": "v1", "kind": "Pod", **named("w")}),
            before=made,
        ),
    ]


def tokens_and_reviews() -> list[Case]:
    robot = [post(f"{NS}/serviceaccounts", named("robot"))]
    review = {"spec": {"hue": 1, "nonResourceAttributes": {"path": "/", "verb": "get"}}}
    return [
        *(
            case(
                f"asking-token-{level.lower()}",
                post(f"{TOKEN}?fieldValidation={level}", {"spec": {"hue": 1}}),
                before=robot,
            )
            for level in ("Strict", "Odd")
        ),
        case(
            "asking-token-bad-seconds",
            post(TOKEN, {"spec": {"expirationSeconds": "many"}}),
            before=robot,
        ),
        *(
            case(
                f"asking-review-{level.lower()}", post(f"{REVIEWS}?fieldValidation={level}", review)
            )
            for level in LEVELS
        ),
        case("asking-review-bad-verb", post(REVIEWS, {"spec": {"nonResourceAttributes": "x"}})),
    ]


CASES = [*evictions(), *bindings(), *scales(), *tokens_and_reviews()]
