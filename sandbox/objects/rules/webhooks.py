"""The rules that configurations of admission webhooks keep.

Source: k8s.io/kubernetes pkg/apis/admissionregistration/validation/validation.go and
k8s.io/apiserver pkg/util/webhook/validation.go. ``matchConditions`` are refused by admission.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from common.errors import Cause
from sandbox.errors import (
    field_duplicate,
    field_invalid,
    field_not_supported,
    field_required,
    fields_invalid,
    shown,
)
from sandbox.objects.rules.dns_names import old_label_problems, subdomain_problems
from sandbox.objects.rules.ports import PORT_RULE, PORTS
from sandbox.objects.rules.selectors import selector_causes

Json = Mapping[str, Any]

# The choices of a field, in the order in which a refusal names them.
_CHOICES: Final = (
    ("failurePolicy", ("Fail", "Ignore")),
    ("matchPolicy", ("Equivalent", "Exact")),
    ("sideEffects", ("None", "NoneOnDryRun")),
)
_REINVOCATION: Final = ("IfNeeded", "Never")
_OPERATIONS: Final = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES: Final = ("*", "Cluster", "Namespaced")
_REVIEWS: Final = ("v1", "v1beta1")
_TIMEOUTS: Final = range(1, 31)  # seconds
_QUALIFIED: Final = 3  # segments
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_NO_HOST: Final = re.compile(r"[ ^`{|}\\]")
_PORT: Final = re.compile(r":([^:\]]+)$")
_FORM: Final = "; desired format: https://host[/path]"


def webhook_causes(configuration: Json) -> Iterator[Cause]:
    """Every webhook must be one that can be asked."""
    names: set[str] = set()
    for index, hook in enumerate(configuration.get("webhooks") or ()):
        path = f"webhooks[{index}]"
        name = hook.get("name") or ""
        yield from _one(hook, name, path)
        yield from _reviews(
            hook.get("admissionReviewVersions") or (), f"{path}.admissionReviewVersions"
        )
        if name in names:
            yield field_duplicate(f"{path}.name", name)
        elif name:
            names.add(name)


def _one(hook: Json, name: str, path: str) -> Iterator[Cause]:
    yield from _qualified(name, f"{path}.name")
    for index, rule in enumerate(hook.get("rules") or ()):
        yield from _rule(rule, f"{path}.rules[{index}]")
    for field, choices in _CHOICES:
        value = hook.get(field)
        if value is None and field == "sideEffects":
            yield field_required(f"{path}.{field}", f"must specify one of {', '.join(choices)}")
        elif value is not None and value not in choices:
            yield field_not_supported(f"{path}.{field}", value, choices)
    timeout = hook.get("timeoutSeconds")
    if timeout is not None and timeout not in _TIMEOUTS:
        text = "the timeout value must be between 1 and 30 seconds"
        yield field_invalid(f"{path}.timeoutSeconds", timeout, text)
    for field in ("namespaceSelector", "objectSelector"):
        yield from selector_causes(hook.get(field), f"{path}.{field}")
    policy = hook.get("reinvocationPolicy")
    if policy is not None and policy not in _REINVOCATION:
        yield field_not_supported(f"{path}.reinvocationPolicy", policy, _REINVOCATION)
    yield from _client(hook.get("clientConfig") or {}, f"{path}.clientConfig")


def _qualified(name: str, path: str) -> Iterator[Cause]:
    problems = list(subdomain_problems(name))
    if not name:
        yield field_required(path)
    elif problems:
        yield field_invalid(path, name, ",".join(problems))
    elif len(name.split(".")) < _QUALIFIED:
        text = "should be a domain with at least three segments separated by dots"
        yield field_invalid(path, name, text)


def _rule(rule: Json, path: str) -> Iterator[Cause]:
    operations = rule.get("operations") or ()
    yield from _not_alone(operations, f"{path}.operations", "operations")
    for index, operation in enumerate(operations):
        if operation not in _OPERATIONS:
            yield field_not_supported(f"{path}.operations[{index}]", operation, _OPERATIONS)
    yield from _not_alone(rule.get("apiGroups") or (), f"{path}.apiGroups", "API groups")
    versions = rule.get("apiVersions") or ()
    yield from _not_alone(versions, f"{path}.apiVersions", "API versions")
    for index, version in enumerate(versions):
        if not version:
            yield field_required(f"{path}.apiVersions[{index}]")
    yield from _resources(rule.get("resources") or (), f"{path}.resources")
    scope = rule.get("scope")
    if scope is not None and scope not in _SCOPES:
        yield field_not_supported(f"{path}.scope", scope, _SCOPES)


def _not_alone(values: Sequence[str], path: str, others: str) -> Iterator[Cause]:
    """There must be something, and a star stands alone."""
    if not values:
        yield field_required(path)
    elif len(values) > 1 and "*" in values:
        yield field_invalid(path, values, f"if '*' is present, must not specify other {others}")


def _resources(resources: Sequence[str], path: str) -> Iterator[Cause]:
    """No resource twice, by its name and by a star."""
    if not resources:
        yield field_required(path)
    starred: set[str] = set()
    for index, text in enumerate(resources):
        if not text:
            yield field_required(f"{path}[{index}]")
            continue
        resource, slash, subresource = text.partition("/")
        if not slash:
            continue
        for star in (f"{resource}/*", f"*/{subresource}"):
            if star in starred:
                problem = f"if '{star}' is present, must not specify {text}"
                yield field_invalid(f"{path}[{index}]", text, problem)
        if "*" in (resource, subresource):
            starred.add(text)
    if len(resources) > 1 and "*/*" in resources:
        text = "if '*/*' is present, must not specify other resources"
        yield field_invalid(path, resources, text)
    bare = [text for text in resources if text and "/" not in text]
    if "*" in bare and bare[-1] != "*":
        text = "if '*' is present, must not specify other resources without subresources"
        yield field_invalid(path, resources, text)


def _client(client: Json, path: str) -> Iterator[Cause]:
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        yield field_required(path, "exactly one of url or service is required")
    elif url is not None:
        yield from _url(url, f"{path}.url")
    elif service is not None:
        yield from _service(service, f"{path}.service")


def _url(url: str, path: str) -> Iterator[Cause]:
    if problem := _url_problem(url):
        text = f"url must be a valid URL: parse {shown(url)}: {problem}{_FORM}"
        yield field_required(path, text)
        return
    parts = urlsplit(url)
    user, _, host = parts.netloc.rpartition("@")
    if parts.scheme != "https":
        yield field_invalid(path, parts.scheme, f"'https' is the only allowed URL scheme{_FORM}")
    if not host:
        yield field_invalid(path, host, f"host must be specified{_FORM}")
    if "@" in parts.netloc:
        yield field_invalid(path, user, "user information is not permitted in the URL")
    if parts.fragment:
        yield field_invalid(path, parts.fragment, "fragments are not permitted in the URL")
    if parts.query:
        yield field_invalid(path, parts.query, "query parameters are not permitted in the URL")


def _url_problem(url: str) -> str:
    """Why Go can't read a URL at all; empty when it can. Source: net/url ``parse``."""
    if _CONTROL.search(url):
        return "net/url: invalid control character in URL"
    try:
        host = urlsplit(url).netloc.rpartition("@")[2]
    except ValueError as error:
        return str(error)
    if wrong := _NO_HOST.search(host):
        return f"invalid character {shown(wrong[0])} in host name"
    port = _PORT.search(host)
    return f'invalid port "{port[0]}" after host' if port and not port[1].isdigit() else ""


def _service(service: Json, path: str) -> Iterator[Cause]:
    # A real server has the two the wrong way round: it asks for the name of what lacks a
    # namespace. Its callers see that, and so do ours.
    if not service.get("namespace"):
        yield field_required(f"{path}.name")
    if not service.get("name"):
        yield field_required(f"{path}.namespace")
    port = service.get("port")
    if port is not None and port not in PORTS:
        yield field_invalid(f"{path}.port", port, f"port is not valid: {PORT_RULE}")
    yield from _path(service.get("path") or "", f"{path}.path")


def _path(text: str, path: str) -> Iterator[Cause]:
    """Segments that could be names, each after a slash."""
    if text in ("", "/"):
        return
    if text == "//":
        yield field_invalid(path, text, "segment[0] may not be empty")
        return
    if not text.startswith("/"):
        yield field_invalid(path, text, "must start with a '/'")
    for index, step in enumerate(text[1:].removesuffix("/").split("/")):
        if not step:
            yield field_invalid(path, text, f"segment[{index}] may not be empty")
            continue
        for problem in subdomain_problems(step):
            yield field_invalid(path, text, f"segment[{index}]: {problem}")


def _reviews(versions: Sequence[str], path: str) -> Iterator[Cause]:
    """One of the versions that a server can speak, and no version twice."""
    if not versions:
        yield field_required(path, f"must specify one of {', '.join(_REVIEWS)}")
        return
    seen: set[str] = set()
    for index, version in enumerate(versions):
        if version in seen:
            yield field_invalid(f"{path}[{index}]", version, "duplicate version")
            continue
        seen.add(version)
        yield from fields_invalid(f"{path}[{index}]", version, old_label_problems(version))
    if seen.isdisjoint(_REVIEWS):
        text = f"must include at least one of {', '.join(_REVIEWS)}"
        yield field_invalid(path, versions, text)
