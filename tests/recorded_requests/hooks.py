"""Admission webhooks."""

from typing import Any

from recorded_requests.case import NS, PODS, Case, Request, case, named, pod, post
from recorded_requests.hook import REPLIES

HOOKS = "/apis/admissionregistration.k8s.io/v1"


def hooks() -> list[Case]:
    """Return cases with admission webhooks."""

    def hook(reply: str, **fields: Any) -> Request:
        body = named(
            "{ns}",
            webhooks=[
                {
                    "name": "hook.example.com",
                    "clientConfig": {"url": f"{{webhook}}/{reply}", "caBundle": "{authority}"},
                    "rules": [
                        {
                            "apiGroups": [""],
                            "apiVersions": ["v1"],
                            "operations": ["CREATE", "UPDATE"],
                            "resources": ["pods", "pods/resize"],
                        }
                    ],
                    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "{ns}"}},
                    "sideEffects": "None",
                    "admissionReviewVersions": ["v1"],
                    **fields,
                }
            ],
        )
        return post(f"{HOOKS}/mutatingwebhookconfigurations", body)

    def configured(case_name: str, **fields: Any) -> Case:
        request = hook("allow", **fields)
        return case(f"hook-configuration-{case_name}", request)

    kinds = [*REPLIES, "other-uid"]
    return [
        configured("defaults"),
        configured(
            "bad-bundle",
            clientConfig={"url": "https://127.0.0.1/x", "caBundle": "bm90IGEgY2VydGlmaWNhdGU="},
        ),
        *(_hooked(hook(reply), f"hook-mutating-{reply}") for reply in kinds),
        _hooked(hook("error", failurePolicy="Ignore"), "hook-mutating-error-ignored"),
    ]


def _hooked(configuration: Request, name: str) -> Case:
    """Return the creation of a pod for which a webhook is called.

    A stored configuration takes effect with a delay. Its second webhook shows when: it denies
    config maps, which the case creates only for that.
    """
    hooks = configuration.body["webhooks"]
    marker = {
        **hooks[0],
        "name": "ready.example.com",
        "clientConfig": {**hooks[0]["clientConfig"], "url": "{webhook}/deny"},
        "rules": [
            {
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": ["CREATE"],
                "resources": ["configmaps"],
            }
        ],
        "failurePolicy": "Fail",
    }
    both = post(configuration.path, {**configuration.body, "webhooks": [*hooks, marker]})
    counts = post(f"{NS}/configmaps?dryRun=All", named("ready"), until=("code", 400))
    return case(name, counts, post(PODS, pod()), before=[both])


CASES = [*hooks()]
