"""The parts of ``apps/v1``, ``batch/v1`` and core controllers that we read."""

from collections.abc import Mapping

from common.api.base import QuantityJson, Wire
from common.api.core import ResourceRequirements
from common.api.meta import LabelSelector, ObjectMeta, OwnedMeta
from common.api.scheduling import Affinity, Toleration

_ENDS = frozenset({"Complete", "Failed", "SuccessCriteriaMet", "FailureTarget"})


class Condition(Wire, frozen=True, kw_only=True):
    """One entry of ``status.conditions``."""

    type: str
    status: str = ""


class TemplateContainer(Wire, frozen=True, kw_only=True):
    """A container of a pod template."""

    name: str = ""
    resources: ResourceRequirements | None = None
    restart_policy: str | None = None  # see ``common.api.core.is_sidecar``


class TemplateSpec(Wire, frozen=True, kw_only=True):
    """``spec`` of a pod template."""

    containers: tuple[TemplateContainer, ...] | None = None
    init_containers: tuple[TemplateContainer, ...] | None = None
    resources: ResourceRequirements | None = None  # of the pod as a whole
    overhead: Mapping[str, QuantityJson] | None = None
    node_selector: Mapping[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] | None = None
    priority_class_name: str = ""
    active_deadline_seconds: int | None = None


class ResourcesTemplate(Wire, frozen=True, kw_only=True):
    """A pod template, decoded without anything but its resources and scheduling rules."""

    spec: TemplateSpec = TemplateSpec()


NO_TEMPLATE = ResourcesTemplate()


class WorkloadSpec(Wire, frozen=True, kw_only=True):
    """The common ``spec`` of Deployment, ReplicaSet, StatefulSet, DaemonSet and Job."""

    replicas: int | None = None  # absent for DaemonSets and Jobs
    selector: LabelSelector | None = None


class WorkloadStatus(Wire, frozen=True, kw_only=True):
    """Counts that the controller reports."""

    replicas: int = 0
    number_ready: int = 0  # DaemonSets, and so are the next two
    desired_number_scheduled: int = 0
    current_number_scheduled: int = 0


class Workload(Wire, frozen=True, kw_only=True):
    """A Deployment, ReplicaSet, StatefulSet, DaemonSet or Job."""

    metadata: OwnedMeta
    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()


class RollingUpdate(Wire, frozen=True, kw_only=True):
    """The limits of a rolling update below and above the wanted number of pods."""

    max_unavailable: int | str | None = None  # pods, or a percentage
    max_surge: int | str | None = None  # not of StatefulSets
    partition: int = 0  # of StatefulSets: pods with lower ordinals keep their version


class UpdateStrategy(Wire, frozen=True, kw_only=True):
    """``spec.strategy`` of a Deployment, ``spec.updateStrategy`` of other workloads."""

    type: str = ""  # absent: RollingUpdate
    rolling_update: RollingUpdate | None = None


class ProgressCondition(Condition, frozen=True, kw_only=True):
    """A condition of a Deployment, with its reason."""

    reason: str = ""


class DeploymentSpec(WorkloadSpec, frozen=True, kw_only=True):
    """``spec`` of a Deployment."""

    template: ResourcesTemplate = NO_TEMPLATE
    strategy: UpdateStrategy = UpdateStrategy()
    min_ready_seconds: int = 0


class DeploymentStatus(WorkloadStatus, frozen=True, kw_only=True):
    """``status`` of a Deployment; the counts are those of all its ReplicaSets."""

    observed_generation: int = 0
    updated_replicas: int = 0  # of the newest ReplicaSet
    available_replicas: int = 0
    conditions: tuple[ProgressCondition, ...] | None = None


class Deployment(Workload, frozen=True, kw_only=True):
    """A Deployment."""

    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()


class StatefulSetSpec(WorkloadSpec, frozen=True, kw_only=True):
    """``spec`` of a StatefulSet."""

    template: ResourcesTemplate = NO_TEMPLATE
    update_strategy: UpdateStrategy = UpdateStrategy()
    min_ready_seconds: int = 0


class StatefulSetStatus(WorkloadStatus, frozen=True, kw_only=True):
    """``status`` of a StatefulSet."""

    observed_generation: int = 0
    updated_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""  # differs from ``current_revision`` until a rollout is complete


class StatefulSet(Workload, frozen=True, kw_only=True):
    """A StatefulSet."""

    spec: StatefulSetSpec = StatefulSetSpec()
    status: StatefulSetStatus = StatefulSetStatus()


class DaemonSetSpec(WorkloadSpec, frozen=True, kw_only=True):
    """``spec`` of a DaemonSet."""

    template: ResourcesTemplate = NO_TEMPLATE
    update_strategy: UpdateStrategy = UpdateStrategy()
    min_ready_seconds: int = 0


class DaemonSetStatus(WorkloadStatus, frozen=True, kw_only=True):
    """``status`` of a DaemonSet."""

    observed_generation: int = 0
    updated_number_scheduled: int = 0


class DaemonSet(Workload, frozen=True, kw_only=True):
    """A DaemonSet."""

    spec: DaemonSetSpec = DaemonSetSpec()
    status: DaemonSetStatus = DaemonSetStatus()


class JobSpec(WorkloadSpec, frozen=True, kw_only=True):
    """``spec`` of a Job."""

    parallelism: int | None = None
    completions: int | None = None  # absent: the first success ends it
    suspend: bool = False


class JobStatus(WorkloadStatus, frozen=True, kw_only=True):
    """``status`` of a Job."""

    active: int = 0  # pods that run, or are to run
    succeeded: int = 0
    conditions: tuple[Condition, ...] | None = None


def has_ended(status: JobStatus) -> bool:
    """Return True if the Job has ended, or its pods are being ended."""
    return any(each.type in _ENDS and each.status == "True" for each in status.conditions or ())


class Job(Workload, frozen=True, kw_only=True):
    """A Job."""

    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


class ReplicationControllerSpec(Wire, frozen=True, kw_only=True):
    """``spec`` of a ReplicationController, whose selector is a plain map."""

    replicas: int | None = None
    selector: Mapping[str, str] | None = None


class ReplicationController(Wire, frozen=True, kw_only=True):
    """A ReplicationController."""

    metadata: OwnedMeta
    spec: ReplicationControllerSpec = ReplicationControllerSpec()
    status: WorkloadStatus = WorkloadStatus()


class TemplateMeta(Wire, frozen=True, kw_only=True):
    """``metadata`` of a pod template."""

    labels: Mapping[str, str] | None = None


class PodTemplate(ResourcesTemplate, frozen=True, kw_only=True):
    """A pod template with its labels."""

    metadata: TemplateMeta = TemplateMeta()


class JobTemplateSpec(Wire, frozen=True, kw_only=True):
    """``spec.jobTemplate.spec`` of a CronJob."""

    parallelism: int | None = None
    template: PodTemplate = PodTemplate()


class JobTemplate(Wire, frozen=True, kw_only=True):
    """``spec.jobTemplate`` of a CronJob."""

    spec: JobTemplateSpec = JobTemplateSpec()


class CronJobSpec(Wire, frozen=True, kw_only=True):
    """``spec`` of a CronJob."""

    job_template: JobTemplate = JobTemplate()


class CronJob(Wire, frozen=True, kw_only=True):
    """A CronJob."""

    metadata: OwnedMeta
    spec: CronJobSpec = CronJobSpec()


class ScaleStatus(Wire, frozen=True, kw_only=True):
    """``status`` of a scale subresource; ``selector`` is in text form."""

    replicas: int = 0
    selector: str = ""


class Scale(Wire, frozen=True, kw_only=True):
    """``autoscaling/v1`` Scale, as the scale subresource returns it."""

    metadata: ObjectMeta
    status: ScaleStatus = ScaleStatus()
