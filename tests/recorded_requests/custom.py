"""Custom resources: our kinds under their schemas, and CustomResourceDefinitions."""

from pathlib import Path
from typing import Any

import yaml

from recorded_requests.case import (
    JSON_PATCH,
    MERGE,
    Case,
    Object,
    Request,
    case,
    delete,
    get,
    patch,
    post,
    put,
)

AUTOSCALING = "/apis/autoscaling.k8s.io/v1/namespaces/{ns}"
VPAS = f"{AUTOSCALING}/verticalpodautoscalers"
VPA = f"{VPAS}/v"
CHECKPOINTS = f"{AUTOSCALING}/verticalpodautoscalercheckpoints"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "w"}
DEFINITIONS: tuple[Request, ...] = tuple(
    post(CRDS, yaml.safe_load(path.read_text(encoding="utf-8")))
    for path in sorted((Path(__file__).parents[2] / "deploy" / "crd").glob("vertical*.yaml"))
)


def vpa(**spec: Any) -> Object:
    return {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": {"name": "v"},
        "spec": {"targetRef": TARGET, **spec},
    }


def policy(**fields: Any) -> Object:
    return vpa(resourcePolicy={"containerPolicies": [{"containerName": "*", **fields}]})


def ours() -> list[Case]:
    """Return cases of VerticalPodAutoscalers and checkpoints."""
    bodies = {
        "minimal": vpa(),
        "no-spec": {**vpa(), "spec": None},
        "no-target": {**vpa(), "spec": {}},
        "target-without-kind": vpa(targetRef={"name": "w"}),
        "target-text": vpa(targetRef="w"),
        "mode-off": vpa(updatePolicy={"updateMode": "Off"}),
        "mode-in-place": vpa(updatePolicy={"updateMode": "InPlaceOrRecreate"}),
        "mode-unknown": vpa(updatePolicy={"updateMode": "Sometimes"}),
        "mode-number": vpa(updatePolicy={"updateMode": 1}),
        "min-replicas-text": vpa(updatePolicy={"minReplicas": "two"}),
        "min-replicas-negative": vpa(updatePolicy={"minReplicas": -1}),
        "requirements": vpa(
            updatePolicy={
                "evictionRequirements": [
                    {"resources": ["cpu"], "changeRequirement": "TargetHigherThanRequests"}
                ]
            }
        ),
        "requirement-unknown": vpa(
            updatePolicy={
                "evictionRequirements": [{"resources": ["cpu"], "changeRequirement": "Perhaps"}]
            }
        ),
        "requirement-empty": vpa(updatePolicy={"evictionRequirements": [{}]}),
        "policy": policy(minAllowed={"cpu": "10m"}, maxAllowed={"cpu": "1", "memory": "1Gi"}),
        "policy-quantity-number": policy(minAllowed={"cpu": 1}),
        "policy-bad-quantity": policy(minAllowed={"cpu": "many"}),
        "policy-mode-unknown": policy(mode="Perhaps"),
        "policy-mode-off": policy(mode="Off"),
        "policy-controlled": policy(controlledResources=["cpu"], controlledValues="RequestsOnly"),
        "policy-controlled-unknown": policy(controlledValues="Some"),
        "policy-resource-unknown": policy(controlledResources=["disk"]),
        "policy-list": vpa(resourcePolicy=[]),
        "recommenders": vpa(recommenders=[{"name": "a"}]),
        "recommenders-two": vpa(recommenders=[{"name": "a"}, {"name": "b"}]),
        "recommender-unnamed": vpa(recommenders=[{}]),
        "status": {**vpa(), "status": {"recommendation": {}}},
        "null-field": vpa(updatePolicy=None),
        "boost": vpa(startupBoost={"cpu": {"type": "Factor", "factor": 2, "durationSeconds": 10}}),
        "boost-unknown": vpa(startupBoost={"cpu": {"type": "Rocket"}}),
    }
    made = [post(VPAS, vpa())]
    recommendation = {
        "containerRecommendations": [
            {"containerName": "app", "target": {"cpu": "25m", "memory": "262144k"}}
        ]
    }
    status = {
        "status": {
            "recommendation": recommendation,
            "conditions": [
                {
                    "type": "RecommendationProvided",
                    "status": "True",
                    "lastTransitionTime": "2026-11-21T08:25:00Z",
                }
            ],
        }
    }
    checkpoint = {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscalerCheckpoint",
        "metadata": {"name": "v-app"},
        "spec": {"vpaObjectName": "v", "containerName": "app"},
        "status": {
            "version": "v3",
            "totalSamplesCount": 5,
            "firstSampleStart": "2026-11-21T08:00:00Z",
            "cpuHistogram": {
                "referenceTimestamp": "2026-11-21T00:00:00Z",
                "bucketWeights": {"0": 10000},
                "totalWeight": 1.5,
            },
        },
    }
    return [
        *(case(f"vpa-create-{name}", post(VPAS, body)) for name, body in bodies.items()),
        case("vpa-fields-ignore", post(f"{VPAS}?fieldValidation=Ignore", vpa(hue=1))),
        case("vpa-get-missing", get(VPA)),
        case("vpa-patch-missing", patch(VPA, {}, MERGE)),
        case("vpa-status-merge", patch(f"{VPA}/status", status, MERGE), get(VPA), before=made),
        case(
            "vpa-status-json-patch",
            patch(
                f"{VPA}/status",
                [{"op": "add", "path": "/status", "value": status["status"]}],
                JSON_PATCH,
            ),
            before=made,
        ),
        *(
            case(
                f"vpa-status-json-patch-{name}",
                patch(
                    f"{VPA}/status",
                    [
                        {"op": "add", "path": "/metadata/resourceVersion", "value": version},
                        {"op": "add", "path": "/status", "value": status["status"]},
                    ],
                    JSON_PATCH,
                ),
                get(VPA),
                before=made,
            )
            for name, version in (("of-this-version", "{version}"), ("of-another-version", "1"))
        ),
        case(
            "vpa-status-json-patch-missing-parent",
            patch(
                f"{VPA}/status",
                [{"op": "add", "path": "/status/recommendation", "value": {}}],
                JSON_PATCH,
            ),
            before=made,
        ),
        case(
            "vpa-status-bad-condition",
            patch(f"{VPA}/status", {"status": {"conditions": [{"type": "X"}]}}, MERGE),
            before=made,
        ),
        case(
            "vpa-status-drops-spec",
            patch(
                f"{VPA}/status",
                {
                    "spec": {"updatePolicy": {"updateMode": "Off"}},
                    "metadata": {"labels": {"a": "b"}},
                },
                MERGE,
            ),
            before=made,
        ),
        case("vpa-main-drops-status", patch(VPA, status, MERGE), before=made),
        case(
            "vpa-status-put",
            put(
                f"{VPA}/status",
                {**vpa(), **status, "metadata": {"name": "v", "resourceVersion": "{version}"}},
            ),
            before=made,
        ),
        case(
            "vpa-put-stale",
            put(VPA, {**vpa(), "metadata": {"name": "v", "resourceVersion": "1"}}),
            before=made,
        ),
        case(
            "vpa-put",
            put(
                VPA,
                {
                    **vpa(updatePolicy={"updateMode": "Off"}),
                    "metadata": {"name": "v", "resourceVersion": "{version}"},
                },
            ),
            before=made,
        ),
        case(
            "vpa-patch-annotation",
            patch(VPA, {"metadata": {"annotations": {"a": "b"}}}, MERGE),
            before=made,
        ),
        case(
            "vpa-patch-spec",
            patch(VPA, {"spec": {"updatePolicy": {"updateMode": "Off"}}}, MERGE),
            before=made,
        ),
        case(
            "vpa-patch-bad-spec",
            patch(VPA, {"spec": {"updatePolicy": {"updateMode": "X"}}}, MERGE),
            before=made,
        ),
        case("vpa-unknown-subresource", get(f"{VPA}/log"), before=made),
        case(
            "vpa-status-wrong-type",
            patch(f"{VPA}/status", {"status": "fine"}, MERGE),
            before=made,
        ),
        case("vpa-patch-no-op", patch(VPA, {}, MERGE), before=made),
        case("vpa-twice", post(VPAS, vpa()), before=made),
        case("vpa-delete", delete(VPA), get(VPA), before=made),
        case(
            "vpa-table",
            get(VPAS, accept="application/json;as=Table;v=v1;g=meta.k8s.io"),
            before=[*made, patch(f"{VPA}/status", status, MERGE)],
        ),
        case("vpa-list", get(VPAS), before=made),
        case("vpa-scale", get(f"{VPA}/scale"), before=made),
        case("vpa-beta", get(VPA.replace("/v1/", "/v1beta2/")), before=made),
        case("checkpoint-create", post(CHECKPOINTS, checkpoint)),
        case(
            "checkpoint-status",
            patch(f"{CHECKPOINTS}/v-app", {"status": {"totalSamplesCount": 9}}, MERGE),
            before=[post(CHECKPOINTS, checkpoint)],
        ),
        case(
            "checkpoint-bad-weight",
            post(CHECKPOINTS, {**checkpoint, "status": {"cpuHistogram": {"totalWeight": "much"}}}),
        ),
        case(
            "checkpoint-status-endpoint",
            patch(f"{CHECKPOINTS}/v-app/status", {"status": {"version": "v4"}}, MERGE),
            before=[post(CHECKPOINTS, checkpoint)],
        ),
    ]


CASES = [*ours()]
