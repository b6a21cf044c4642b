"""The shape of pods and of what makes pods, as far as this server or its clients rely on it.

Decoding into these types finds a text where a list belongs before anything is stored. Fields
that aren't declared are kept as they are. Names are those of ``k8s.io/api``.
"""

from typing import Any

import msgspec

from sandbox.objects.shapes.base import (
    Amounts,
    Condition,
    Flag,
    Json,
    LabelSelector,
    Long,
    Map,
    Number,
    Portion,
    Shape,
    Text,
)
from sandbox.objects.shapes.containers import Container, Named, Resources, Volume


class Toleration(Shape):
    """``Toleration``."""

    key: Text = None
    operator: Text = None
    value: Text = None
    effect: Text = None
    toleration_seconds: Long = None


class ReadinessGate(Shape):
    """``PodReadinessGate``."""

    condition_type: Text = None


class SpreadConstraint(Shape):
    """``TopologySpreadConstraint``."""

    max_skew: Number = None
    topology_key: Text = None
    when_unsatisfiable: Text = None
    label_selector: LabelSelector | None = None
    min_domains: Number = None


class PodSpec(Shape):
    """``PodSpec``."""

    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    ephemeral_containers: list[dict[str, Any]] | None = None
    volumes: list[Volume] | None = None
    tolerations: list[Toleration] | None = None
    node_name: Text = None
    node_selector: Map = None
    restart_policy: Text = None
    termination_grace_period_seconds: Long = None
    active_deadline_seconds: Long = None
    dns_policy: Text = None
    service_account_name: Text = None
    service_account: Text = None
    security_context: Json = None
    scheduler_name: Text = None
    priority: Number = None
    priority_class_name: Text = None
    preemption_policy: Text = None
    host_network: Flag = None
    overhead: Amounts = None
    resources: Resources | None = None
    affinity: Json = None
    os: Json = None
    readiness_gates: list[ReadinessGate] | None = None
    scheduling_gates: list[Named] | None = None
    topology_spread_constraints: list[SpreadConstraint] | None = None
    resource_claims: list[Named] | None = None
    image_pull_secrets: list[Named] | None = None
    hostname: Text = None
    subdomain: Text = None


class Waiting(Shape):
    """``ContainerStateWaiting``."""

    reason: Text = None
    message: Text = None


class Ended(Shape):
    """``ContainerStateTerminated``."""

    exit_code: Number = None
    signal: Number = None
    reason: Text = None
    message: Text = None
    started_at: Text = None
    finished_at: Text = None


class ContainerState(Shape):
    """``ContainerState``."""

    waiting: Waiting | None = None
    running: Json = None
    terminated: Ended | None = None


class ContainerStatus(Shape):
    """``ContainerStatus``."""

    name: str
    ready: Flag = None
    started: Flag = None
    restart_count: Number = None
    image: Text = None
    state: ContainerState | None = None
    last_state: ContainerState | None = None
    resources: Resources | None = None
    allocated_resources: Amounts = None


class PodStatus(Shape):
    """``PodStatus``."""

    phase: Text = None
    reason: Text = None
    message: Text = None
    pod_ip: Text = msgspec.field(default=None, name="podIP")
    host_ip: Text = msgspec.field(default=None, name="hostIP")
    start_time: Text = None
    qos_class: Text = None
    nominated_node_name: Text = None
    resize: Text = None
    observed_generation: Long = None
    conditions: list[Condition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    resources: Resources | None = None
    allocated_resources: Amounts = None


class Pod(Shape):
    """``Pod``."""

    spec: PodSpec | None = None
    status: PodStatus | None = None


class TemplateMetadata(Shape):
    """The metadata of pods to be."""

    name: Text = None
    labels: Map = None
    annotations: Map = None


class Template(Shape):
    """``PodTemplateSpec``."""

    metadata: TemplateMetadata | None = None
    spec: PodSpec | None = None


class Rolling(Shape):
    """The parameters of rolling updates, together."""

    max_surge: Portion = None
    max_unavailable: Portion = None
    partition: Number = None


class Strategy(Shape):
    """How new pods replace old ones."""

    type: Text = None
    rolling_update: Rolling | None = None


class Ordinals(Shape):
    """``StatefulSetOrdinals``."""

    start: Number = None


class WorkloadSpec(Shape):
    """The specs of ``apps/v1``, together."""

    replicas: Number = None
    selector: LabelSelector | None = None
    template: Template | None = None
    strategy: Strategy | None = None
    update_strategy: Strategy | None = None
    min_ready_seconds: Number = None
    revision_history_limit: Number = None
    progress_deadline_seconds: Number = None
    paused: Flag = None
    service_name: Text = None
    pod_management_policy: Text = None
    persistent_volume_claim_retention_policy: Map = None
    ordinals: Ordinals | None = None
    volume_claim_templates: list[dict[str, Any]] | None = None


class WorkloadStatus(Shape):
    """The statuses of ``apps/v1``, together."""

    replicas: Number = None
    ready_replicas: Number = None
    available_replicas: Number = None
    updated_replicas: Number = None
    unavailable_replicas: Number = None
    observed_generation: Long = None
    desired_number_scheduled: Number = None
    current_number_scheduled: Number = None
    updated_number_scheduled: Number = None
    number_ready: Number = None
    number_available: Number = None
    conditions: list[Condition] | None = None


class Workload(Shape):
    """A Deployment, ReplicaSet, StatefulSet or DaemonSet."""

    spec: WorkloadSpec | None = None
    status: WorkloadStatus | None = None


class OldWorkloadSpec(Shape):
    """``ReplicationControllerSpec``."""

    replicas: Number = None
    min_ready_seconds: Number = None
    selector: Map = None
    template: Template | None = None


class OldWorkload(Shape):
    """``ReplicationController``."""

    spec: OldWorkloadSpec | None = None
    status: WorkloadStatus | None = None


class EndPolicy(Shape):
    """``PodFailurePolicy`` and ``SuccessPolicy``."""

    rules: list[dict[str, Any]] | None = None


class JobSpec(Shape):
    """``JobSpec``."""

    parallelism: Number = None
    completions: Number = None
    active_deadline_seconds: Long = None
    backoff_limit: Number = None
    backoff_limit_per_index: Number = None
    max_failed_indexes: Number = None
    ttl_seconds_after_finished: Number = None
    completion_mode: Text = None
    pod_replacement_policy: Text = None
    pod_failure_policy: EndPolicy | None = None
    success_policy: EndPolicy | None = None
    managed_by: Text = None
    manual_selector: Flag = None
    suspend: Flag = None
    selector: LabelSelector | None = None
    template: Template | None = None


class JobStatus(Shape):
    """``JobStatus``."""

    active: Number = None
    ready: Number = None
    terminating: Number = None
    succeeded: Number = None
    failed: Number = None
    start_time: Text = None
    completion_time: Text = None
    conditions: list[Condition] | None = None


class Job(Shape):
    """``Job``."""

    spec: JobSpec | None = None
    status: JobStatus | None = None


class CronJobSpec(Shape):
    """``CronJobSpec``."""

    schedule: Text = None
    time_zone: Text = None
    suspend: Flag = None
    concurrency_policy: Text = None
    starting_deadline_seconds: Long = None
    successful_jobs_history_limit: Number = None
    failed_jobs_history_limit: Number = None
    job_template: Job | None = None


class CronJobStatus(Shape):
    """``CronJobStatus``."""

    active: list[dict[str, Any]] | None = None
    last_schedule_time: Text = None


class CronJob(Shape):
    """``CronJob``."""

    spec: CronJobSpec | None = None
    status: CronJobStatus | None = None
