"""Manifests that users post to /debug/explain, and the errors of invalid ones."""

import contextlib
import json
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from admission.manifest import LARGEST, ManifestError, read

POD = """
apiVersion: v1
kind: Pod
metadata:
  name: web-0
  creationTimestamp: 2026-01-02T03:04:05Z
spec:
  containers:
  - name: app
    resources:
      requests: {cpu: 1, memory: 64Mi}
"""
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: app}]}
"""
CRON_JOB = """
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec: {jobTemplate: {spec: {template: {spec: {containers: [{name: app}]}}}}}
"""


def read_text(text: str, *, namespace: str = "") -> tuple[str, dict[str, Any]]:
    found = read(text.encode(), namespace=namespace)
    pod: dict[str, Any] = json.loads(found.object)
    return found.namespace, pod


def test_a_pod_is_read_unchanged() -> None:
    namespace, pod = read_text(POD)
    assert namespace == "default"
    assert pod["metadata"] == {
        "name": "web-0",
        "creationTimestamp": "2026-01-02T03:04:05Z",
        "namespace": "default",
    }
    assert pod["spec"]["containers"][0]["resources"]["requests"] == {"cpu": 1, "memory": "64Mi"}


def test_json_is_accepted() -> None:
    _, pod = read_text(POD)
    assert read_text(json.dumps(pod, indent="\t"))[1] == pod


def test_json_may_contain_surrogate_pairs() -> None:
    _, pod = read_text(POD)
    pod["metadata"]["annotations"] = {"mood": "\N{GRINNING FACE}"}
    assert "\\ud83d\\ude00" in json.dumps(pod)
    assert read_text(json.dumps(pod))[1] == pod


@pytest.mark.parametrize(
    ("text", "namespace", "want"),
    [
        pytest.param(POD, "", "default", id="neither"),
        pytest.param(POD, "shop", "shop", id="the query"),
        pytest.param(DEPLOYMENT, "", "shop", id="the manifest"),
        pytest.param(DEPLOYMENT, "shop", "shop", id="both agree"),
    ],
)
def test_namespaces(text: str, namespace: str, want: str) -> None:
    assert read_text(text, namespace=namespace)[0] == want


@pytest.mark.parametrize(
    ("text", "owner"),
    [
        (DEPLOYMENT, {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}),
        (CRON_JOB, {"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly"}),
    ],
    ids=["Deployment", "CronJob"],
)
def test_a_template_makes_a_pod_that_its_object_controls(text: str, owner: dict[str, str]) -> None:
    _, pod = read_text(text)
    assert pod["metadata"]["ownerReferences"] == [owner | {"controller": True}]
    assert pod["spec"] == {"containers": [{"name": "app"}]}
    assert ("labels" in pod["metadata"]) == (owner["kind"] == "Deployment")


def test_of_several_documents_the_workload_is_used() -> None:
    others = "kind: Service\n---\n" + DEPLOYMENT + "---\nkind: VerticalPodAutoscaler\n---\n"
    assert read_text(others) == read_text(DEPLOYMENT)


def listed(*items: object) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})


def test_of_a_list_the_workload_is_used() -> None:
    deployment = yaml.safe_load(DEPLOYMENT)
    assert read_text(listed(deployment)) == read_text(DEPLOYMENT)
    assert read_text(listed({"kind": "Service"}, deployment)) == read_text(DEPLOYMENT)


def with_resources(text: str) -> str:
    return POD.replace("requests: {cpu: 1, memory: 64Mi}", text)


@pytest.mark.parametrize(
    ("text", "status", "field", "problem"),
    [
        pytest.param("", 400, "(the body)", "empty", id="empty"),
        pytest.param("{", 400, "(the body)", "neither YAML nor JSON", id="invalid YAML"),
        pytest.param("\x00", 400, "(the body)", "neither YAML nor JSON", id="a NUL character"),
        pytest.param("[" * 10_000, 400, "(the body)", "nests deeper", id="nested brackets"),
        pytest.param("a: &a 1\nb: *a", 400, "(the body)", "alias *a", id="an alias"),
        pytest.param(
            POD + "---" + POD, 400, "(the body)", "2 objects that make pods", id="two pods"
        ),
        pytest.param(
            listed(*[yaml.safe_load(DEPLOYMENT)] * 2),
            400,
            "(the body)",
            "2 objects",
            id="a list of two workloads",
        ),
        pytest.param(listed(), 400, "(the body)", "0 objects", id="an empty list"),
        pytest.param(
            "kind: List\nitems: 7",
            400,
            "(the body)",
            "0 objects",
            id="a list whose items are a number",
        ),
        pytest.param(listed(7), 422, "(the body)", "no object", id="a list of numbers"),
        pytest.param(
            "a: 1\n---\nb: 1", 400, "(the body)", "0 objects that", id="two objects without a kind"
        ),
        pytest.param("x" * (LARGEST + 1), 413, "(the body)", "larger than", id="too large"),
        pytest.param("web", 422, "(the body)", "no object", id="a string"),
        pytest.param("{}", 422, "kind", "missing", id="no kind"),
        pytest.param("kind: Service", 422, "kind", "'Service'", id="another kind"),
        pytest.param("kind: AdmissionReview", 422, "kind", "review", id="a review"),
        pytest.param("kind: Pod", 422, "apiVersion", "not of None", id="no version"),
        pytest.param("kind: Pod\napiVersion: v1", 422, "metadata", "missing", id="no metadata"),
        pytest.param(
            "kind: Deployment\nmetadata: {}", 422, "metadata.name", "missing", id="no name"
        ),
        pytest.param(
            "kind: Deployment\nmetadata: {name: web}\nspec: {}",
            *(422, "spec.template", "missing"),
            id="no template",
        ),
        pytest.param(
            "kind: CronJob\nmetadata: {name: a}\nspec: {jobTemplate: 1}",
            *(422, "spec.jobTemplate", "no object"),
            id="a template that is a number",
        ),
        pytest.param(
            "kind: Pod\napiVersion: v1\nmetadata: {}",
            *(422, "spec.containers", "none"),
            id="no container",
        ),
        pytest.param(
            POD.replace("name: app", "name: [app]"),
            *(422, "spec.containers[0].name", "Expected `str`, got `array`"),
            id="a name that is a list",
        ),
        pytest.param(
            POD.replace("name: app", "image: app"),
            *(422, "spec.containers[0].name", "it is missing"),
            id="a container without a name",
        ),
        pytest.param(
            with_resources("requests: {cpu: lots}"),
            *(422, "spec.containers[0].resources.requests.cpu", "'lots' is no quantity"),
            id="an invalid quantity",
        ),
        pytest.param(
            with_resources("limits: {memory: 1 Gi}"),
            *(422, "spec.containers[0].resources.limits.memory", "'1 Gi' is no quantity"),
            id="a space in a quantity",
        ),
    ],
)
def test_invalid_manifests(text: str, status: int, field: str, problem: str) -> None:
    with pytest.raises(ManifestError) as raised:
        read(text.encode())
    assert (raised.value.status, raised.value.field) == (status, field)
    assert problem in raised.value.problem
    assert raised.value.fix


def test_contradicting_namespaces_are_refused() -> None:
    with pytest.raises(ManifestError, match="the manifest says 'shop'") as raised:
        read(DEPLOYMENT.encode(), namespace="other")
    assert raised.value.field == "metadata.namespace"


NAMES = st.sampled_from(
    ("kind", "apiVersion", "metadata", "name", "namespace", "spec", "template", "containers")
)
WORDS = st.sampled_from(
    ("Pod", "Deployment", "CronJob", "v1", "250m", "on", "2026-01-02", "\ud83d")
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | WORDS | st.binary(max_size=3)
TREES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES | SCALARS, inner, max_size=5),
    max_leaves=12,
)


def with_replaced_value(tree: Any, path: list[str]) -> Any:
    """Return a valid manifest with another value at one path."""
    manifest = yaml.safe_load(POD if len(path) < 3 else DEPLOYMENT)
    place = manifest
    for name in path[:-1]:
        place = place.setdefault(name, {})
        if not isinstance(place, dict):
            return manifest
    place[path[-1]] = tree
    return manifest


@settings(max_examples=60, deadline=None, database=None)
@given(tree=TREES, path=st.lists(NAMES, min_size=1, max_size=4))
def test_random_manifests_are_read_or_refused(tree: Any, path: list[str]) -> None:
    for document in (tree, with_replaced_value(tree, path)):
        with contextlib.suppress(ManifestError):
            read(yaml.safe_dump(document, allow_unicode=True).encode(errors="surrogatepass"))
        with contextlib.suppress(ManifestError):
            read(json.dumps(document, skipkeys=True, default=str).encode())


@settings(max_examples=100, deadline=None, database=None)
@given(
    body=st.binary(max_size=60) | st.text("{}[]:,-&*!|>'\"#%@ \n\tka1", max_size=40).map(str.encode)
)
def test_random_bytes_are_read_or_refused(body: bytes) -> None:
    with contextlib.suppress(ManifestError):
        read(body)
