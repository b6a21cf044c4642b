"""Complete runs of the model compared with the reference: estimates, status, checkpoints."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import numpy as np

from common.api.autoscaling import CheckpointStatus, VerticalPodAutoscaler
from common.api.meta import LabelSelector
from common.labels import from_label_selector
from common.resources import parse_quantities
from golden_data import Differences, Row, rows
from recommender.checkpoints.codec import decode, object_name
from recommender.estimate.estimation import EstimationSettings
from recommender.estimate.post_processing import PostProcessingSettings, post_process
from recommender.estimate.vpa_estimates import estimate_vpas, recommended_groups
from recommender.model.aggregates import AggregationRules
from recommender.model.keys import PodKey, VpaKey
from recommender.model.oom_outcome import OomOutcome
from recommender.model.timestamps import instant
from recommender.model.usage import Usage
from recommender.publish.status import StatusFindings, next_status
from recommender.publish.status_difference import status_difference
from recommender.sources.conversion import container_rules, vpa_key
from recommender_golden import Stream, check_history, feed, joined, pod_facts, series

LIFETIME = AggregationRules().lifetime

# The rows contain only the estimation step; other steps set these conditions.
DECIDED_ELSEWHERE = {"ConfigUnsupported", "ConfigDeprecated", "FetchingHistory", "LowConfidence"}


@dataclass(slots=True)
class Case:
    """A row with its own namespace; all rows share one model."""

    row: Row
    usage: Usage
    vpas: list[VerticalPodAutoscaler]
    containers: list[int]

    def key(self, namespace: str, name: str) -> PodKey:
        return PodKey(f"{self.row.id}/{namespace}", name)

    @property
    def now(self) -> datetime:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=self.row.input["now_ms"])


def prepare(usage: Usage, row: Row) -> tuple[Case, Stream]:
    case = Case(row, usage, [], [])
    for given in row.input["vpas"]:
        vpa = msgspec.convert(given["object"], VerticalPodAutoscaler)
        namespace = f"{row.id}/{vpa.metadata.namespace}"
        vpa = msgspec.structs.replace(
            vpa, metadata=msgspec.structs.replace(vpa.metadata, namespace=namespace)
        )
        selector = msgspec.convert(given.get("selector"), LabelSelector | None)
        rules = container_rules(vpa, per_vpa_config=False)
        usage.put_autoscaler(vpa_key(vpa), from_label_selector(selector), rules)
        for checkpoint in given.get("checkpoints") or ():
            history = decode(msgspec.convert(checkpoint["status"], CheckpointStatus))
            usage.load_history(vpa_key(vpa), checkpoint["container"], history)
        case.vpas.append(vpa)
    streams = []
    for pod in row.input["pods"]:
        key = case.key(pod["namespace"], pod["name"])
        names = [container["name"] for container in pod["containers"]]
        active = pod["phase"] not in ("Succeeded", "Failed")
        labels = pod.get("labels") or {}
        usage.put_pod(pod_facts(key, names, labels=labels, active=active), now=0)
        for container in pod["containers"]:
            number = usage.pods[key].containers[container["name"]]
            case.containers.append(number)
            streams.append(series(number, container["ops"]))
    return case, joined(streams)


def test_recommender() -> None:
    differences = Differences()
    usage = Usage()
    prepared = [prepare(usage, row) for row in rows("recommender")]
    results = feed(usage, [stream for _, stream in prepared])
    for (case, stream), outcomes in zip(prepared, results, strict=True):
        accepted = {number: [0, 0] for number in case.containers}
        for number, outcome in zip(stream.rows.tolist(), outcomes, strict=True):
            good = outcome is True or outcome is OomOutcome.RECORDED
            accepted[number][0 if good else 1] += 1
        want = case.row.expected
        got = [accepted[number] for number in case.containers]
        differences.check(case.row.id, "samples", got, want["samples_ok_and_rejected"])
        for pod in case.row.input["pods"]:
            if pod.get("deleted"):
                usage.remove_pod(case.key(pod["namespace"], pod["name"]))
        mine = [
            label_set
            for label_set in usage.matching
            if label_set.namespace.startswith(f"{case.row.id}/")
        ]
        count = sum(len(label_set.aggregates) for label_set in mine)
        differences.check(case.row.id, "aggregates", count, want["aggregates"])
        for vpa, expected in zip(case.vpas, want["vpas"], strict=True):
            check_vpa(differences, case, vpa, expected)
    differences.none_in(8_000)


def check_vpa(
    differences: Differences, case: Case, vpa: VerticalPodAutoscaler, want: dict[str, Any]
) -> None:
    row, key, now = case.row, vpa_key(vpa), instant(case.now)
    pods = case.usage.pod_count(key)
    differences.check(row.id, "pods", pods, want["pod_count"])
    groups = case.usage.groups(key)
    histories = case.usage.without_open_peaks(groups, now)
    saved = dict(
        zip(
            [group.container for group in groups],
            histories.save(np.arange(len(groups))),
            strict=True,
        )
    )
    differences.check(row.id, "checkpoints", saved.keys(), want["checkpoints"].keys())
    for container, checkpoint in want["checkpoints"].items():
        own = VpaKey(key.namespace, vpa.metadata.name)
        differences.check(row.id, "name", object_name(own, container), checkpoint["name"])
        if row.departure != "recommender.md-Q21":
            check_history(differences, row.id, saved[container], checkpoint["status"])
    fresh = {group.container for group in recommended_groups(case.usage, key, now)}
    stale = {
        group.container
        for group in groups
        if not group.has_pods
        and case.usage.aggregates.last_sample[group.rows[-1]]
        <= now - LIFETIME.total_seconds() * 1e6
    }
    differences.check(row.id, "Q5", fresh & stale, set())
    if stale:
        return  # the number of containers differs from the reference's, and thus every minimum
    findings = findings_of(case, vpa, pods)
    status = next_status(vpa, findings, case.now)
    written = msgspec.json.decode(msgspec.json.encode(status))
    differences.check(
        row.id, "recommendation", written.get("recommendation"), want["recommendation"]
    )
    conditions = [
        {key: one.get(key, "") for key in ("type", "status", "reason", "message")}
        for one in written["conditions"]
    ]
    estimated = [one for one in want["conditions"] if one["type"] not in DECIDED_ELSEWHERE]
    differences.check(row.id, "conditions", conditions, estimated)
    generation = written.get("observedGeneration", 0)
    differences.check(row.id, "generation", generation, want["observed_generation"])
    before = [condition.type for condition in vpa.status.conditions or ()]
    if not DECIDED_ELSEWHERE & set(before):
        patched = status_difference(vpa.status, status) > 0
        differences.check(row.id, "patched", patched, want["status_patched"])
    later = msgspec.structs.replace(vpa, status=status)
    again = next_status(later, findings, case.now + timedelta(minutes=1))
    differences.check(row.id, "a second patch", status_difference(status, again), 0.0)
    ours = findings_of(case, vpa, pods, without_samples=False)
    known = [
        (
            one.name,
            {
                name: one.target[name]
                for name in one.target
                if not {one.name, f"{one.name} ({name})"} & set(ours.unknown)
            },
        )
        for one in findings.recommendation
    ]
    got = [(one.name, one.target) for one in ours.recommendation]
    differences.check(row.id, "X125", got, [(name, target) for name, target in known if target])


def findings_of(
    case: Case, vpa: VerticalPodAutoscaler, pods: int, *, without_samples: bool = True
) -> StatusFindings:
    config = case.row.input["config"]
    key = vpa_key(vpa)
    estimates = (
        estimate_vpas(case.usage, [key], EstimationSettings(), instant(case.now)).of(key).containers
    )
    publication = PostProcessingSettings(
        round_cpu=config["round_cpu_millicores"],
        round_memory=config["round_memory_bytes"],
        humanize_memory=config["humanize_memory"],
        integer_cpu=config["cpu_integer_post_processor"],
        max_allowed=parse_quantities(config.get("container_recommendation_max_allowed")),
        without_samples=without_samples,
    )
    processed = post_process(
        estimates,
        publication,
        annotations=vpa.metadata.annotations or {},
        policy=vpa.spec.resource_policy,
    )
    return StatusFindings(
        recommendation=processed.amounts, pods=pods, unknown=processed.selected.unknown
    )
