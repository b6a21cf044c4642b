"""Resources of the API server: groups, kinds, subresources, and their storage."""

from dataclasses import dataclass, field

ALL_VERBS = ("create", "delete", "get", "list", "patch", "update", "watch")
NAMESPACE_VERBS = ("create", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One resource of one group version, as discovery describes it.

    ``subresources`` are the names that are served below an object. ``fields`` are the paths
    that field selectors accept beside ``metadata.name`` and ``metadata.namespace``.
    """

    group: str = ""
    version: str = "v1"
    plural: str
    singular: str = ""  # empty: the kind in small letters
    kind: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    fields: tuple[str, ...] = ()
    counts_generations: bool = False  # metadata.generation grows with changes outside metadata
    custom: bool = False  # defined by a CustomResourceDefinition

    # Derived. Kept, because every request reads them.
    group_resource: str = field(init=False, compare=False)  # ``pods``, ``deployments.apps``
    api_version: str = field(init=False, compare=False)  # ``v1``, ``apps/v1``

    def __post_init__(self) -> None:
        if not self.singular:
            object.__setattr__(self, "singular", self.kind.lower())
        name = f"{self.plural}.{self.group}" if self.group else self.plural
        version = f"{self.group}/{self.version}" if self.group else self.version
        object.__setattr__(self, "group_resource", name)
        object.__setattr__(self, "api_version", version)

    @property
    def list_kind(self) -> str:
        return f"{self.kind}List"

    @property
    def has_status(self) -> bool:
        return "status" in self.subresources


PODS = Resource(
    plural="pods",
    kind="Pod",
    short_names=("po",),
    subresources=("binding", "eviction", "log", "proxy", "resize", "status"),
    fields=(
        "spec.nodeName",
        "status.phase",
    ),
    counts_generations=True,
)
NODES = Resource(
    plural="nodes",
    kind="Node",
    namespaced=False,
    short_names=("no",),
    subresources=("status",),
)
NAMESPACES = Resource(
    plural="namespaces",
    kind="Namespace",
    namespaced=False,
    short_names=("ns",),
    subresources=("status",),
    verbs=NAMESPACE_VERBS,
)
EVENTS = Resource(
    plural="events",
    kind="Event",
    short_names=("ev",),
    fields=(
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "source",
        "type",
    ),
)
SECRETS = Resource(plural="secrets", kind="Secret")
LIMIT_RANGES = Resource(
    plural="limitranges",
    kind="LimitRange",
    short_names=("limits",),
)
RESOURCE_QUOTAS = Resource(
    plural="resourcequotas",
    kind="ResourceQuota",
    short_names=("quota",),
    subresources=("status",),
)
DEPLOYMENTS = Resource(
    group="apps",
    plural="deployments",
    kind="Deployment",
    short_names=("deploy",),
    subresources=("scale", "status"),
    counts_generations=True,
)
REPLICA_SETS = Resource(
    group="apps",
    plural="replicasets",
    kind="ReplicaSet",
    short_names=("rs",),
    subresources=("scale", "status"),
    counts_generations=True,
)
STATEFUL_SETS = Resource(
    group="apps",
    plural="statefulsets",
    kind="StatefulSet",
    short_names=("sts",),
    subresources=("scale", "status"),
    counts_generations=True,
)
DAEMON_SETS = Resource(
    group="apps",
    plural="daemonsets",
    kind="DaemonSet",
    short_names=("ds",),
    subresources=("status",),
    counts_generations=True,
)
POD_DISRUPTION_BUDGETS = Resource(
    group="policy",
    plural="poddisruptionbudgets",
    kind="PodDisruptionBudget",
    short_names=("pdb",),
    subresources=("status",),
    counts_generations=True,
)
LEASES = Resource(
    group="coordination.k8s.io",
    plural="leases",
    kind="Lease",
)
CUSTOM_RESOURCE_DEFINITIONS = Resource(
    group="apiextensions.k8s.io",
    plural="customresourcedefinitions",
    kind="CustomResourceDefinition",
    namespaced=False,
    short_names=("crd", "crds"),
    subresources=("status",),
    counts_generations=True,
)
MUTATING_WEBHOOKS = Resource(
    group="admissionregistration.k8s.io",
    plural="mutatingwebhookconfigurations",
    kind="MutatingWebhookConfiguration",
    namespaced=False,
    counts_generations=True,
)
BUILTIN: tuple[Resource, ...] = (
    Resource(plural="configmaps", kind="ConfigMap", short_names=("cm",)),
    EVENTS,
    LIMIT_RANGES,
    NAMESPACES,
    NODES,
    PODS,
    Resource(plural="podtemplates", kind="PodTemplate", counts_generations=True),
    Resource(
        plural="replicationcontrollers",
        kind="ReplicationController",
        short_names=("rc",),
        subresources=("status",),
        counts_generations=True,
    ),
    RESOURCE_QUOTAS,
    SECRETS,
    DAEMON_SETS,
    DEPLOYMENTS,
    REPLICA_SETS,
    STATEFUL_SETS,
    Resource(
        group="batch",
        plural="cronjobs",
        kind="CronJob",
        short_names=("cj",),
        subresources=("status",),
        counts_generations=True,
    ),
    Resource(
        group="batch",
        plural="jobs",
        kind="Job",
        subresources=("status",),
        counts_generations=True,
    ),
    POD_DISRUPTION_BUDGETS,
    LEASES,
    MUTATING_WEBHOOKS,
    CUSTOM_RESOURCE_DEFINITIONS,
)
