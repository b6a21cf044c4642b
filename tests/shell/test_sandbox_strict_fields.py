"""Unknown and repeated fields; the sentences are those of a real API server 1.36."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from sandbox_client import Answer, Api, api_server, pod

PODS = "/api/v1/namespaces/golden/pods"
STRICT = "?dryRun=All&fieldValidation=Strict"
YAML = "application/yaml"
JSON_PATCH = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
UNKNOWN = [
    'unknown field "metadata.foo"',
    'unknown field "spec.foo"',
    'unknown field "spec.containers[0].bar"',
    'unknown field "spec.containers[0].resources.reqests"',
    'unknown field "spec.terminationgraceperiodseconds"',
    'unknown field "statu"',
]


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with api_server() as server:
        yield server


def misspelled() -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "foo": "m"},
        "spec": {
            "foo": 1,
            "containers": [
                {"name": "a", "image": "i:1", "bar": None, "resources": {"reqests": {"cpu": "1"}}}
            ],
            "terminationgraceperiodseconds": 5,
        },
        "statu": {},
    }


def warnings(*texts: str) -> list[str]:
    return ['299 - "' + text.replace('"', '\\"') + '"' for text in texts]


def warned_of(answer: Answer) -> list[str]:
    return answer.headers.get("warning", "").splitlines()


async def test_strict_refuses_every_unknown_field_at_once(api: Api) -> None:
    answer = await api("POST", PODS + STRICT, misspelled())
    assert (answer.status, answer.json["reason"]) == (400, "BadRequest")
    assert answer.json["message"] == (
        'Pod in version "v1" cannot be handled as a Pod: strict decoding error: '
        + ", ".join(UNKNOWN)
    )


@pytest.mark.parametrize("choice", ["", "Warn"])
async def test_warn_tells_each_and_stores_none(api: Api, choice: str) -> None:
    answer = await api("POST", f"{PODS}?fieldValidation={choice}", misspelled())
    assert answer.status == 201
    assert warned_of(answer) == warnings(*UNKNOWN)
    stored = await api.read(f"{PODS}/web")
    assert "foo" not in stored["metadata"]
    assert not {"foo", "terminationgraceperiodseconds"} & stored["spec"].keys()
    assert stored["spec"]["containers"][0]["resources"] == {}


async def test_ignore_drops_without_a_word(api: Api) -> None:
    answer = await api("POST", f"{PODS}?fieldValidation=Ignore", misspelled())
    assert (answer.status, warned_of(answer)) == (201, [])
    assert "statu" not in answer.json


async def test_another_choice_is_refused(api: Api) -> None:
    answer = await api("POST", f"{PODS}?fieldValidation=Bogus", pod())
    assert answer.status == 422
    assert answer.json["message"] == (
        'CreateOptions.meta.k8s.io "" is invalid: fieldValidation: Unsupported value: "Bogus": '
        'supported values: "", "Ignore", "Strict", "Warn"'
    )


async def test_repeated_fields_are_told_once_and_the_last_counts(api: Api) -> None:
    body = (
        b'{"metadata":{"name":"p","name":"p","labels":{"a":"1","a":"2"}},"spec":{"containers":'
        b'[{"name":"a","image":"b","image":"c","image":"d","foo":1,"foo":2}],"Containers":[]}}'
    )
    problems = [
        'duplicate field "metadata.name"',
        'duplicate field "metadata.labels.a"',
        'duplicate field "spec.containers[0].image"',
        'unknown field "spec.containers[0].foo"',
        'unknown field "spec.Containers"',
    ]
    refused = await api("POST", PODS + STRICT, body)
    assert refused.json["message"].endswith(f"strict decoding error: {', '.join(problems)}")
    made = await api("POST", PODS, body)
    assert warned_of(made) == warnings(*problems)
    assert made.json["spec"]["containers"][0]["image"] == "d"


async def test_repeated_fields_in_yaml_have_lines(api: Api) -> None:
    body = b"""\
metadata:
  name: p
  name: q
spec:
  foo: 1
  containers:
  - {name: a, image: b}
"""
    refused = await api("POST", PODS + STRICT, body, **{"content-type": YAML})
    assert refused.json["message"].endswith(
        'strict decoding error: yaml: unmarshal errors:\n  line 3: key "name" already set in map, '
        'unknown field "spec.foo"'
    )
    made = await api("POST", PODS, body, **{"content-type": YAML})
    assert warned_of(made) == [
        '299 - "line 3: key \\"name\\" already set in map"',
        '299 - "unknown field \\"spec.foo\\""',
    ]


@pytest.mark.parametrize(
    ("kind", "problems"),
    [
        pytest.param(
            JSON_PATCH,
            'json patch unknown field "[0].val", unknown field "metadata.foo"',
            id="JSON",
        ),
        pytest.param(
            MERGE,
            'duplicate field "metadata.labels.a", unknown field "metadata.foo", '
            'unknown field "spec.bar"',
            id="merge",
        ),
        pytest.param(
            STRATEGIC,
            'duplicate field "metadata.labels.a", unknown field "metadata.foo", '
            'unknown field "spec.bar"',
            id="strategic merge",
        ),
    ],
)
async def test_patches_are_held_to_it(api: Api, kind: str, problems: str) -> None:
    await api.make(PODS, pod("web"))
    body = b'{"metadata":{"foo":1,"labels":{"a":"1","a":"2"}},"spec":{"foo":null,"bar":1}}'
    if kind == JSON_PATCH:
        body = b'[{"op":"add","path":"/metadata/foo","value":1,"val":3}]'
    refused = await api("PATCH", f"{PODS}/web{STRICT}", body, **{"content-type": kind})
    assert (refused.status, refused.json["reason"]) == (422, "Invalid")
    assert refused.json["message"].startswith(' "" is invalid: patch: Invalid value: "')
    assert refused.json["message"].endswith(f"strict decoding error: {problems}")
    warned = await api("PATCH", f"{PODS}/web", body, **{"content-type": kind})
    assert warned.status == 200
    assert warned_of(warned) == warnings(*problems.split(", "))
    assert "foo" not in warned.json["metadata"]


async def test_workloads_are_checked_down_to_their_templates(api: Api) -> None:
    template = {
        "metadata": {"labels": {"app": "web"}, "nme": "x"},
        "spec": {
            "containers": [{"name": "a", "image": "b", "livenessProbe": {"httpGet": {"prt": 3}}}]
        },
    }
    body = {
        "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template},
    }
    answer = await api("POST", "/apis/apps/v1/namespaces/golden/deployments" + STRICT, body)
    assert answer.json["message"].endswith(
        'unknown field "spec.template.metadata.nme", '
        'unknown field "spec.template.spec.containers[0].livenessProbe.httpGet.prt"'
    )


@pytest.mark.parametrize(("minor", "status"), [(33, 400), (34, 201)])
async def test_a_field_of_a_newer_version_is_unknown(minor: int, status: int) -> None:
    async with api_server(minor) as server:
        answer = await server("POST", PODS + STRICT, pod("web", hostnameOverride="other"))
    assert answer.status == status
