"""Reviews and token requests: questions about access, answered and not stored."""

from collections.abc import Mapping
from typing import Any

from common.errors import Cause
from common.runtime.clock import Clock
from sandbox import errors
from sandbox.admission.request import UserInfo
from sandbox.apiserver import protobuf
from sandbox.apiserver.answers import Answer, json_answer
from sandbox.apiserver.asked_bodies import read_asked
from sandbox.apiserver.auth import Authenticator
from sandbox.apiserver.authorization import Attributes, Authorizer
from sandbox.apiserver.requests import Place, Request
from sandbox.apiserver.tokens import API_AUDIENCES, Bound, ServiceAccountTokens, bound_kinds
from sandbox.objects.access_resources import AUTHENTICATION, AUTHORIZATION
from sandbox.objects.resources import PODS, SERVICE_ACCOUNTS, Resource
from sandbox.objects.store import Store
from sandbox.times import rfc3339

Json = dict[str, Any]

_LEAST, _MOST = 600, 1 << 32  # seconds that a token may be asked for
_USUAL = 3600
_TOKEN_REQUEST = Resource(group=AUTHENTICATION, plural="tokenrequests", kind="TokenRequest")


class AccessReviews:
    """Answers them for one API server."""

    def __init__(
        self,
        store: Store,
        *,
        authenticator: Authenticator,
        authorizer: Authorizer,
        tokens: ServiceAccountTokens,
        clock: Clock,
    ) -> None:
        self._store = store
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._tokens = tokens
        self._clock = clock

    def answer(self, request: Request, resource: Resource, place: Place) -> Answer:
        """Answer a review of ``authentication.k8s.io`` or ``authorization.k8s.io``.

        Raises:
            ApiError: 400, 415 or 422, the question can't be understood.
        """
        review, warnings = _body(request, resource)
        spec = review.get("spec") or {}
        answers = {
            "SelfSubjectReview": self._who,
            "TokenReview": self._token_review,
            "SelfSubjectRulesReview": self._rules,
        }
        special = answers.get(resource.kind)
        status = (
            special(request, spec)
            if special is not None
            else self._access(request, resource, place, spec)
        )
        meta = {
            name: value
            for name, value in (review.get("metadata") or {}).items()
            if name in ("name", "namespace")
        }
        answered: Json = {
            "kind": resource.kind,
            "apiVersion": resource.api_version,
            "metadata": meta,
            "spec": spec,
            "status": status,
        }
        if resource.kind == "SelfSubjectReview":
            del answered["spec"]
            meta["creationTimestamp"] = rfc3339(self._clock.now())
        if resource.kind == "SelfSubjectRulesReview":
            answered["spec"] = {}
        return json_answer(answered, status=201, warnings=warnings)

    def token(self, request: Request, place: Place) -> Answer:
        """Answer a TokenRequest.

        Raises:
            ApiError: 404, there is no such account or bound object; 400, 409 or 422, the
                request doesn't fit to them.

        Source: ``TokenREST.Create``, k8s.io/kubernetes
        pkg/registry/core/serviceaccount/storage/token.go.
        """
        body, warnings = _body(request, _TOKEN_REQUEST) if request.body else ({}, [])
        spec = dict(body.get("spec") or {})
        account = self._store.get(SERVICE_ACCOUNTS, place.namespace, place.name)
        if account is None:
            raise errors.not_found(SERVICE_ACCOUNTS, place.name)
        seconds = spec.get("expirationSeconds")
        seconds = _USUAL if seconds is None else seconds
        _check_seconds(seconds)
        audiences = tuple(spec.get("audiences") or API_AUDIENCES)
        reference = spec.get("boundObjectRef")
        bound = self._bound(place, reference) if reference else None
        issued, until = self._tokens.issue(
            account, audiences=audiences, seconds=seconds, bound=bound
        )
        now = self._clock.now()
        return json_answer(
            {
                "kind": _TOKEN_REQUEST.kind,
                "apiVersion": _TOKEN_REQUEST.api_version,
                "metadata": {
                    "name": place.name,
                    "namespace": place.namespace,
                    "uid": account.uid,
                    "creationTimestamp": rfc3339(now),
                },
                "spec": {
                    "audiences": list(audiences),
                    "expirationSeconds": seconds,
                    "boundObjectRef": reference or None,
                },
                "status": {"token": issued, "expirationTimestamp": rfc3339(until)},
            },
            status=201,
            warnings=warnings,
        )

    def _bound(self, place: Place, reference: Mapping[str, str]) -> Bound:
        kind, version = reference.get("kind", ""), reference.get("apiVersion", "")
        resource = bound_kinds().get(kind)
        if resource is None or version != "v1":
            shown = version if "/" in version else f"/{version}"
            raise errors.bad_request(f"cannot bind token to object of type {shown}, Kind={kind}")
        name = reference.get("name", "")
        namespace = place.namespace if resource.namespaced else ""
        stored = self._store.get(resource, namespace, name)
        if stored is None:
            raise errors.not_found(resource, name)
        if resource is PODS:
            account = stored.object(PODS)["spec"].get("serviceAccountName", "")
            if account != place.name:
                raise errors.bad_request(
                    f'cannot bind token for serviceaccount "{place.name}" to pod running with '
                    "different serviceaccount name."
                )
        uid = reference.get("uid", "")
        if uid and uid != stored.uid:
            raise errors.ApiError(
                409,
                "Conflict",
                f'Operation cannot be fulfilled on {kind} "{name}": the UID in the bound object '
                f"reference ({uid}) does not match the UID in record. The object might have been "
                "deleted and then recreated",
                details={"name": name, "kind": kind},
            )
        return Bound(resource, stored)

    def _who(self, request: Request, _: Json) -> Json:
        return {"userInfo": request.user.as_json()}

    def _token_review(self, _: Request, spec: Json) -> Json:
        token = spec.get("token", "")
        if not token:
            raise errors.bad_request("token is required for TokenReview in authentication")
        audiences = tuple(spec.get("audiences") or API_AUDIENCES)
        user = self._authenticator.user_of(token, audiences)
        own = self._tokens.audiences_of(token)
        if user is not None:
            meant = [one for one in audiences if one in (own or API_AUDIENCES)]
            return {"authenticated": True, "user": user.as_json(), "audiences": meant}
        error = "invalid bearer token"
        if own and not set(own) & set(audiences):
            error = (
                f"[{error}, token audiences {_listed(own)} is invalid for the target audiences "
                f"{_listed(audiences)}]"
            )
        return {"user": {}, "error": error}

    def _rules(self, request: Request, spec: Json) -> Json:
        namespace = spec.get("namespace", "")
        if not namespace:
            raise errors.bad_request("no namespace on request")
        rules = [rule.raw for rule in self._authorizer.rules(request.user, namespace)]
        return {
            "resourceRules": [_kept(one, _OF_RESOURCES) for one in rules if one.get("resources")],
            "nonResourceRules": [_kept(one, _OF_URLS) for one in rules if one.get(_URLS)],
            "incomplete": False,
        }

    def _access(self, request: Request, resource: Resource, place: Place, spec: Json) -> Json:
        user = request.user
        about: Json = spec.get("resourceAttributes") or {}
        path: Json = spec.get("nonResourceAttributes") or {}
        causes: list[Cause] = []
        if about and path:
            given = {"Path": path.get("path", ""), "Verb": path.get("verb", "")}
            text = "cannot be specified in combination with resourceAttributes"
            causes.append(errors.field_invalid("spec.nonResourceAttributes", given, text))
        elif not about and not path:
            text = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
            causes.append(errors.field_invalid("spec.resourceAttributes", None, text))
        if not resource.kind.startswith("Self"):
            if not spec.get("user") and not spec.get("groups"):
                text = "at least one of user or group must be specified"
                causes.append(errors.field_invalid("spec.user", "", text))
            user = UserInfo(
                username=spec.get("user", ""),
                uid=spec.get("uid", ""),
                groups=tuple(spec.get("groups") or ()),
            )
        if resource.namespaced and about.get("namespace") != place.namespace:
            causes.append(
                errors.field_invalid(
                    "spec.resourceAttributes.namespace",
                    about.get("namespace", ""),
                    "must match metadata.namespace",
                )
            )
        if causes:
            raise _invalid(causes)
        asked = (
            Attributes(verb=path.get("verb", ""), path=path.get("path", ""))
            if path
            else Attributes(
                verb=about.get("verb", ""),
                group=about.get("group", ""),
                resource=about.get("resource", ""),
                subresource=about.get("subresource", ""),
                namespace=about.get("namespace", ""),
                name=about.get("name", ""),
            )
        )
        answer = self._authorizer.decide(user, asked)
        return {"allowed": answer.allowed, **({"reason": answer.reason} if answer.reason else {})}


_URLS = "nonResourceURLs"
_OF_RESOURCES = ("verbs", "apiGroups", "resources", "resourceNames")
_OF_URLS = ("verbs", _URLS)


def _kept(rule: Mapping[str, Any], names: tuple[str, ...]) -> Json:
    return {name: rule[name] for name in names if rule.get(name)}


def _body(request: Request, resource: Resource) -> tuple[Json, list[str]]:
    """The body, in JSON, YAML or protobuf, and what its sender is warned of.

    Raises:
        ApiError: 400 or 415.
    """
    if request.content_type != protobuf.PROTOBUF:
        return read_asked(request, resource)
    try:
        return protobuf.decode(request.body, resource.kind), []
    except protobuf.MalformedError as error:
        raise errors.bad_request(f"the object provided is unrecognized: {error}") from error


def _check_seconds(seconds: int) -> None:
    text = ""
    if seconds < _LEAST:
        text = "may not specify a duration less than 10 minutes"
    elif seconds > _MOST:
        text = "may not specify a duration larger than 2^32 seconds"
    if text:
        cause = errors.field_invalid("spec.expirationSeconds", seconds, text)
        raise errors.invalid("TokenRequest", "", [cause], group=AUTHENTICATION)


def _invalid(causes: list[Cause]) -> errors.ApiError:
    """A 422 of a review, whose kind a real API server leaves out."""
    error = errors.invalid("", "", causes, group=AUTHORIZATION)
    details = {"group": AUTHORIZATION}
    return errors.ApiError(422, "Invalid", error.message, causes=causes, details=details)


def _listed(audiences: tuple[str, ...]) -> str:
    return "[" + " ".join(f'"{one}"' for one in audiences) + "]"
