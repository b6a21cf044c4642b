"""Test cases of the rules and warnings for VPAs (admission.md 8); their ids describe the rules."""

import json
from dataclasses import dataclass, field
from typing import Any

from admission import vpa_decoding, vpa_validation
from admission.field_errors import ErrorType
from admission.vpa_validation import VpaVerdict
from common.features import FeatureGates

Spec = dict[str, Any]

TARGET = {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}
GATES = "InPlace=true,PerVPAConfig=true,CPUStartupBoost=true"  # all

REQUIRED, INVALID = ErrorType.REQUIRED, ErrorType.INVALID
UNSUPPORTED, FORBIDDEN = ErrorType.NOT_SUPPORTED, ErrorType.FORBIDDEN

UPDATE = "spec.updatePolicy"
CONTAINER = "spec.resourcePolicy.containerPolicies[0]"
MODES = 'supported values: "InPlace", "InPlaceOrRecreate", "Initial", "Off", "Recreate"'
NO_IN_PLACE = (
    "Forbidden: in order to use UpdateMode InPlace, you must enable feature gate InPlace "
    "in the admission-controller args"
)
NO_TARGET = (
    "Required value: targetRef is required; an object written for the removed v1beta1 API, which "
    "selects pods by labels, has to name its controller here"
)
QUERY = "apps/v1/replicasets?x=N/y"
NO_API = "must be a version, or a group and a version, such as apps/v1"
MILLI, BYTES = "must be a whole number of milli CPUs", "must be a whole number of bytes"


def spec(**fields: Any) -> Spec:
    return TARGET | fields


def pointing(api_version: str) -> Spec:
    return {"targetRef": {"apiVersion": api_version, "kind": "Robot", "name": "web"}}


def update(**fields: Any) -> Spec:
    return spec(updatePolicy={"updateMode": "Off"} | fields)


def evict(*resources: list[str]) -> Spec:
    wanted = [{"resources": r, "changeRequirement": "TargetHigherThanRequests"} for r in resources]
    return update(evictionRequirements=wanted)


def container(**fields: Any) -> Spec:
    return spec(resourcePolicy={"containerPolicies": [{"containerName": "app"} | fields]})


@dataclass(frozen=True, kw_only=True)
class Case:
    id: str
    spec: Spec
    want: tuple[ErrorType, str, str] | None = None  # type, field and sentence; None: accepted
    old: Spec | None = None  # None: it is created
    gates: str = ""
    warnings: tuple[str, ...] = field(default=())

    def verdict(self) -> VpaVerdict:
        old = None if self.old is None else read(self.old)
        return vpa_validation.admit_vpa(read(self.spec), old, FeatureGates.parse(self.gates))


def read(written: Spec) -> Any:
    return vpa_decoding.decode(json.dumps({"spec": written}).encode())


AUTO = (
    'spec.updatePolicy: "Auto" mode is deprecated and will be removed in a future API version. '
    "Use explicit update modes like: [InPlace InPlaceOrRecreate Initial Off Recreate]. "
    "See https://github.com/kubernetes/autoscaler/issues/8424 for more details."
)
TOLERATED = (
    f'{CONTAINER}.controlledResources[0]: unsupported value "gpu" is allowed only because it is '
    'present in the existing VPA object; supported values: "cpu", "memory"'
)

TARGETS = [
    Case(
        id="A7 targetRef: missing on CREATE",
        spec={},
        want=(
            REQUIRED,
            "spec.targetRef",
            NO_TARGET,
        ),
    ),
    Case(id="A7 targetRef: missing on UPDATE passes", spec={}, old={}),
    Case(id="A7 targetRef: dropped on UPDATE passes", spec={}, old=TARGET),
    Case(id="targetRef: name and kind are not checked", spec={"targetRef": {}}),
    Case(
        id="X116 targetRef.apiVersion: a query on CREATE",
        spec=pointing(QUERY),
        want=(INVALID, "spec.targetRef.apiVersion", f'Invalid value: "{QUERY}": {NO_API}'),
    ),
    Case(
        id="X116 targetRef.apiVersion: a control character on CREATE",
        spec=pointing("x\u0001/v1"),
        want=(INVALID, "spec.targetRef.apiVersion", f'Invalid value: "x\\u0001/v1": {NO_API}'),
    ),
    Case(
        id="X116 targetRef.apiVersion: written on UPDATE",
        spec=pointing(QUERY),
        old=TARGET,
        want=(INVALID, "spec.targetRef.apiVersion", f'Invalid value: "{QUERY}": {NO_API}'),
    ),
    Case(
        id="X116 targetRef.apiVersion: kept on UPDATE passes",
        spec=pointing(QUERY),
        old=pointing(QUERY),
    ),
    Case(id="X116 targetRef.apiVersion: a version alone passes", spec=pointing("v1")),
    Case(id="X116 targetRef.apiVersion: of a custom group passes", spec=pointing("example.com/v1")),
    Case(id="recommenders: one", spec=spec(recommenders=[{"name": "a"}])),
    Case(
        id="recommenders: more than one entry",
        spec=spec(recommenders=[{"name": "a"}, {"name": "b"}]),
        want=(ErrorType.TOO_MANY, "spec.recommenders", "Too many: 2: must have at most 1 item"),
    ),
]
MODE_FIELD = f"{UPDATE}.updateMode"
UPDATE_POLICIES = [
    Case(id="updatePolicy: none is defaulted", spec=TARGET),
    Case(
        id="updateMode: none in an updatePolicy",
        spec=spec(updatePolicy={}),
        want=(
            REQUIRED,
            MODE_FIELD,
            "Required value: updateMode is required if UpdatePolicy is used",
        ),
    ),
    *(
        Case(id=f"updateMode: {mode}", spec=update(updateMode=mode))
        for mode in ("Off", "Initial", "Recreate")
    ),
    Case(
        id="A3 updateMode: InPlaceOrRecreate needs no gate",
        spec=update(updateMode="InPlaceOrRecreate"),
    ),
    Case(id="updateMode: Auto, with a warning", spec=update(updateMode="Auto"), warnings=(AUTO,)),
    *(
        Case(
            id=f"updateMode: {mode!r} is unknown",
            spec=update(updateMode=mode),
            want=(UNSUPPORTED, MODE_FIELD, f'Unsupported value: "{mode}": {MODES}'),
        )
        for mode in ("auto", "inplace", "")
    ),
    Case(
        id="A2 updateMode: InPlace with its gate off",
        spec=update(updateMode="InPlace"),
        want=(FORBIDDEN, MODE_FIELD, NO_IN_PLACE),
    ),
    Case(
        id="A2 updateMode: InPlace with its gate off, new on UPDATE",
        spec=update(updateMode="InPlace"),
        old=TARGET,
        want=(FORBIDDEN, MODE_FIELD, NO_IN_PLACE),
    ),
    Case(
        id="A2 updateMode: InPlace with its gate off, stored",
        spec=update(updateMode="InPlace", minReplicas=2),
        old=update(updateMode="InPlace"),
    ),
    Case(id="A2 updateMode: InPlace, gate on", spec=update(updateMode="InPlace"), gates=GATES),
    Case(id="minReplicas: 1", spec=update(minReplicas=1)),
    *(
        Case(
            id=f"minReplicas: {number}",
            spec=update(minReplicas=number),
            want=(
                INVALID,
                f"{UPDATE}.minReplicas",
                f"Invalid value: {number}: minReplicas has to be positive",
            ),
        )
        for number in (0, -1)
    ),
    Case(
        id="minReplicas: 0 is refused on UPDATE although it is stored",
        spec=update(minReplicas=0),
        old=update(minReplicas=0),
        want=(
            INVALID,
            f"{UPDATE}.minReplicas",
            "Invalid value: 0: minReplicas has to be positive",
        ),
    ),
]
EVICTION_FIELD = f"{UPDATE}.evictionRequirements"
TWICE = "may be in one requirement only, alone or in [cpu, memory]"
CPU_TWICE = (INVALID, EVICTION_FIELD, f'Invalid value: [["cpu"], ["cpu"]]: cpu {TWICE}')
EVICTIONS = [
    Case(id="A1 evictionRequirements: each resource once", spec=evict(["cpu"], ["memory"])),
    Case(id="A1 evictionRequirements: none", spec=evict()),
    Case(
        id="A1 KEP-4831: a resource in two requirements",
        spec=evict(["cpu"], ["cpu"]),
        want=CPU_TWICE,
    ),
    Case(
        id="A1 KEP-4831: a combined requirement plus a single one",
        spec=evict(["cpu", "memory"], ["cpu"]),
        want=(
            INVALID,
            EVICTION_FIELD,
            f'Invalid value: [["cpu", "memory"], ["cpu"]]: cpu {TWICE}',
        ),
    ),
    Case(
        id="A1 evictionRequirements: an empty list of resources",
        spec=evict([]),
        want=(
            INVALID,
            EVICTION_FIELD,
            "Invalid value: []: requirement 0 must name at least one resource: cpu, memory or both",
        ),
    ),
    Case(
        id="A1 evictionRequirements: neither cpu nor memory",
        spec=evict(["CPU"]),
        want=(
            INVALID,
            EVICTION_FIELD,
            'Invalid value: "CPU": requirement 0 may name cpu and memory only',
        ),
    ),
    Case(
        id="A1 evictionRequirements: stored, and not changed",
        spec=evict(["cpu"], ["cpu"]) | {"recommenders": [{"name": "a"}]},
        old=evict(["cpu"], ["cpu"]),
    ),
    Case(
        id="A1 evictionRequirements: stored, and changed",
        spec=evict(["cpu"], ["cpu"]),
        old=evict(["cpu"], ["cpu"], ["memory"]),
        want=CPU_TWICE,
    ),
    Case(
        id="A1 evictionRequirements: new on UPDATE",
        spec=evict(["cpu"], ["cpu"]),
        old=TARGET,
        want=CPU_TWICE,
    ),
]


def invalid(name: str, value: str, sentence: str) -> tuple[ErrorType, str, str]:
    return (INVALID, f"{CONTAINER}.{name}", f"Invalid value: {value}: {sentence}")


POLICIES = [
    Case(
        id="containerName: empty",
        spec=container(containerName=""),
        want=(REQUIRED, f"{CONTAINER}.containerName", "Required value"),
    ),
    Case(
        id="containerName: twice is not checked",
        spec=spec(resourcePolicy={"containerPolicies": 2 * [{"containerName": "a"}]}),
    ),
    *(Case(id=f"mode: {mode}", spec=container(mode=mode)) for mode in ("Auto", "Off")),
    Case(
        id="mode: neither Auto nor Off",
        spec=container(mode="off"),
        want=(
            UNSUPPORTED,
            f"{CONTAINER}.mode",
            'Unsupported value: "off": supported values: "Auto", "Off"',
        ),
    ),
    *(
        case
        for bound in ("minAllowed", "maxAllowed")
        for case in (
            Case(id=f"{bound}: cpu of whole milli CPUs", spec=container(**{bound: {"cpu": "1m"}})),
            Case(id=f"{bound}: cpu as a number", spec=container(**{bound: {"cpu": 2}})),
            Case(
                id=f"{bound}: cpu finer than 1m",
                spec=container(**{bound: {"cpu": "187500u"}}),
                want=invalid(f"{bound}[cpu]", '"187500u"', MILLI),
            ),
            Case(
                id=f"{bound}: memory of no whole number of bytes",
                spec=container(**{bound: {"memory": "100m"}}),
                want=invalid(f"{bound}[memory]", '"100m"', BYTES),
            ),
            Case(
                id=f"{bound}: another resource may be as fine as it likes",
                spec=container(**{bound: {"example.com/gpu": "1u"}}),
            ),
            Case(id=f"{bound}: negative passes", spec=container(**{bound: {"cpu": "-1"}})),
        )
    ),
    Case(
        id="maxAllowed: equal to minAllowed, written in another way",
        spec=container(minAllowed={"memory": "1Gi"}, maxAllowed={"memory": 1073741824}),
    ),
    *(
        Case(
            id=f"maxAllowed: below minAllowed for {name}",
            spec=container(minAllowed={name: "2"}, maxAllowed={name: "1"}),
            want=invalid(
                f"maxAllowed[{name}]",
                '"1"',
                f'max resource for {name} is lower than min of "2"',
            ),
        )
        for name in ("cpu", "memory", "example.com/gpu")
    ),
    Case(
        id="controlledValues: mode Off together with RequestsAndLimits",
        spec=container(mode="Off", controlledValues="RequestsAndLimits"),
        want=(
            FORBIDDEN,
            f"{CONTAINER}.controlledValues",
            "Forbidden: controlledValues shouldn't be specified if container scaling mode is off",
        ),
    ),
    Case(
        id="controlledValues: mode Off together with RequestsOnly",
        spec=container(mode="Off", controlledValues="RequestsOnly"),
    ),
    Case(
        id="controlledValues: RequestsAndLimits in mode Auto",
        spec=container(mode="Auto", controlledValues="RequestsAndLimits"),
    ),
    Case(id="controlledResources: empty", spec=container(controlledResources=[])),
    Case(
        id="controlledResources: neither cpu nor memory",
        spec=container(controlledResources=["cpu", "gpu"]),
        want=(
            UNSUPPORTED,
            f"{CONTAINER}.controlledResources[1]",
            'Unsupported value: "gpu": supported values: "cpu", "memory"',
        ),
    ),
    Case(
        id="controlledResources: stored, with a warning",
        spec=container(controlledResources=["gpu"]),
        old=container(containerName="other", controlledResources=["cpu", "gpu"]),
        warnings=(TOLERATED,),
    ),
    Case(
        id="controlledResources: another one than the stored",
        spec=container(controlledResources=["tpu"]),
        old=container(controlledResources=["gpu"]),
        want=(
            UNSUPPORTED,
            f"{CONTAINER}.controlledResources[0]",
            'Unsupported value: "tpu": supported values: "cpu", "memory"',
        ),
    ),
]

RULES = [*TARGETS, *UPDATE_POLICIES, *EVICTIONS, *POLICIES]
