"""Recommender and updater together, over hours: a bound by a quota moves, and pods aren't evicted.

Each cycle computes the bound from the pods, lowers the recommendation and publishes it. The updater
then judges the pods by its own rules, and evicts one of those that it wants to update if all
replicas run.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from common.api.autoscaling import VerticalPodAutoscaler, VpaCondition, VpaStatus
from common.api.core import ResourceQuota, ResourceQuotaSpec, ResourceQuotaStatus
from common.api.meta import ObjectMeta
from common.recommendation.amounts import ContainerAmounts
from common.recommendation.quota_scopes import ScopeFacts
from common.resources import CPU, MEMORY, cpu_quantity
from common.scheduling.pod_claims import Targets, targets_of
from common.scheduling.pod_sum import PhaseSum, PodSum
from common.target.pod_counts import PodCounts
from quota_workloads import container, pod, vpa, workload
from recommender.estimate.amount_selection import SelectedAmounts
from recommender.estimate.post_processing import PostProcessed, ProcessingStage
from recommender.estimate.quota_bounds import (
    QuotaBound,
    QuotaWorkload,
    WantedTargets,
    quota_bounds,
    quota_claims,
)
from recommender.estimate.quota_capping import WithinQuotas, within_quotas
from recommender.estimate.quota_patience import QuotaState
from recommender.estimate.step_reasons import StepReason
from recommender.model.patience import PATIENCE
from recommender.publish.quota_messages import quota_findings
from recommender.publish.status import ConditionType, lowered_resources, to_status
from updater.evaluate.drift import measure
from updater.evaluate.update_verdict import WANTS_UPDATE, Thresholds, judge

START = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)
HARD = 10_000  # millicores
OTHERS = 4_000
WANTED = ContainerAmounts(  # its lower bound is above all caps below
    name="app",
    target={CPU: cpu_quantity(3000)},
    lower_bound={CPU: cpu_quantity(2500)},
    upper_bound={CPU: cpu_quantity(4000)},
    uncapped_target={CPU: cpu_quantity(3000)},
)
MINUTE = timedelta(minutes=1)


def quota(used: int) -> ResourceQuota:
    return ResourceQuota(
        metadata=ObjectMeta(name="team", namespace="shop"),
        spec=ResourceQuotaSpec(),
        status=ResourceQuotaStatus(
            hard={"requests.cpu": f"{HARD}m"}, used={"requests.cpu": f"{used}m"}
        ),
    )


def processed(wanted: ContainerAmounts) -> PostProcessed:
    stage = ProcessingStage(reason=StepReason.ORDER, amounts=(wanted,))
    return PostProcessed(
        estimated=(wanted,), stages=(stage,), selected=SelectedAmounts(amounts=(wanted,))
    )


def cpu_alone(target: int) -> ContainerAmounts:
    amounts = {CPU: cpu_quantity(target)}
    return ContainerAmounts(
        name="app",
        target=amounts,
        lower_bound=amounts,
        upper_bound=amounts,
        uncapped_target=amounts,
    )


@dataclass(slots=True)
class Replica:
    cpu: int
    runs_at: datetime


@dataclass(slots=True, kw_only=True)
class Cluster:
    """One workload and one quota; times are those of its events."""

    replicas: list[Replica]
    others: Callable[[datetime], int] = lambda _: OTHERS
    pending: timedelta = timedelta(seconds=5)  # of a new pod
    wanted: int = 3
    now: datetime = START
    vpa: VerticalPodAutoscaler = field(default_factory=vpa)
    published: ContainerAmounts | None = None
    states: Mapping[str, QuotaState] = field(default_factory=dict)
    found: WithinQuotas | None = None
    targets: list[int] = field(default_factory=list)  # published, without repetitions
    evictions: int = 0

    @property
    def used(self) -> int:
        return self.others(self.now) + sum(each.cpu for each in self.replicas)

    def recommend(self) -> None:
        published = () if self.published is None else (self.published,)
        self.found = within_quotas(
            processed(WANTED),
            self._bounds(),
            {"app": {CPU: 10, MEMORY: 1}},
            published=targets_of(published),
            was_lowered=lowered_resources(self.vpa.status, ConditionType.CAPPED_BY_QUOTA),
            states=self.states,
            now=self.now,
        )
        self.states = self.found.states
        (self.published,) = self.found.processed.amounts
        conditions = tuple(
            VpaCondition(type=each.condition, status="True") for each in quota_findings(self.found)
        )
        status = VpaStatus(recommendation=to_status((self.published,)), conditions=conditions)
        self.vpa = structs.replace(self.vpa, status=status)
        target = self.published.target[CPU].milli
        if self.targets[-1:] != [target]:
            self.targets.append(target)

    def update(self) -> None:
        """Evict one pod that needs it, if all run; its controller makes another one at once."""
        assert self.published is not None
        if any(each.runs_at > self.now for each in self.replicas):
            return
        for each in self.replicas:
            requests = {"app": {CPU: cpu_quantity(each.cpu)}}
            verdict = judge(
                measure(requests, {"app": self.published}),
                started_at=each.runs_at,
                oomed_quickly=False,
                thresholds=Thresholds(),
                now=self.now,
            )
            if verdict in WANTS_UPDATE:
                self.evictions += 1
                self.replicas.remove(each)
                self.add()
                return

    def add(self) -> None:
        assert self.published is not None
        cpu = self.published.target[CPU].milli
        self.replicas.append(Replica(cpu, self.now + self.pending))

    def _bounds(self) -> Sequence[QuotaBound]:
        running = [
            pod(container(cpu=f"{each.cpu}m")) for each in self.replicas if each.runs_at <= self.now
        ]
        counts = PodCounts(wanted=self.wanted, surge=1, existing=len(self.replicas))
        found = workload(*running, of=self.vpa, counts=counts)
        assert found is not None
        return quota_bounds([quota(self.used)], {"web": found})["web"]


def run(cluster: Cluster, hours: float, *, at: Mapping[int, Callable[[Cluster], None]]) -> None:
    """Run a cycle and a pass of the updater each minute; ``at`` are events by minute.

    In each cycle, the pods of a rollout fit the quota, or the condition says why not.
    """
    for minute in range(int(hours * 60)):
        if minute in at:
            at[minute](cluster)
        cluster.recommend()
        assert cluster.found is not None
        own = sum(each.cpu for each in cluster.replicas)
        rollout = (cluster.wanted + 1) * cluster.targets[-1]
        reasons = [each.reason for each in quota_findings(cluster.found)]
        is_full = cluster.used - own + rollout > HARD
        assert reasons == ["TargetsLoweredLater" if is_full else "TargetsLowered"]
        cluster.now += MINUTE / 2
        cluster.update()
        cluster.now += MINUTE / 2


def replicas(number: int, cpu: int, *, age: timedelta = timedelta(hours=1)) -> list[Replica]:
    return [Replica(cpu, START - age) for _ in range(number)]


def cron_job(now: datetime) -> int:
    """Return the usage of other pods: half a CPU more in the first ten minutes of each hour."""
    return OTHERS + (500 if (now - START) % timedelta(hours=1) < timedelta(minutes=10) else 0)


def recreate(now: datetime) -> int:
    """Return the usage of other pods: none for three minutes of each hour, by a Recreate."""
    into = (now - START) % timedelta(hours=1)
    return 0 if timedelta(minutes=10) <= into < timedelta(minutes=13) else OTHERS


def scale_out(cluster: Cluster) -> None:
    """Add a replica, as a HorizontalPodAutoscaler does."""
    cluster.wanted += 1
    cluster.add()


def lower_others_for_ever(cluster: Cluster) -> None:
    cluster.others = lambda _: OTHERS + 2000


def others_leave(cluster: Cluster) -> None:
    cluster.others = lambda _: 0


def half_of_others_return(cluster: Cluster) -> None:
    cluster.others = lambda _: OTHERS // 2


@pytest.mark.parametrize(
    ("cluster", "events", "targets", "evictions"),
    [
        pytest.param(Cluster(replicas=replicas(3, 1500)), {}, [1500], 0, id="nothing happens"),
        pytest.param(
            Cluster(replicas=replicas(3, 1500), others=cron_job, now=START - 30 * MINUTE),
            {},
            [1500],
            0,
            id="a CronJob of another team runs each hour",
        ),
        pytest.param(
            Cluster(replicas=replicas(3, 1500), others=recreate),
            {},
            [1500],
            0,
            id="another team rolls out with Recreate each hour",
        ),
        pytest.param(
            Cluster(replicas=replicas(3, 1500)),
            {10: others_leave},
            [1500, 2500],
            3,
            id="another team leaves: the pods follow",
        ),
        pytest.param(
            Cluster(replicas=replicas(3, 1000), pending=timedelta(seconds=100)),
            {},
            [1500],
            3,
            id="replacements are Pending for 100 seconds",
        ),
        pytest.param(
            Cluster(replicas=replicas(3, 1500)),
            {10: scale_out},
            [1500, 1200],
            0,
            id="a replica more: the target follows, and running pods stay",
        ),
        pytest.param(
            Cluster(replicas=replicas(3, 1500)),
            {10: lower_others_for_ever},
            [1500, 1000],
            0,
            id="another team stays: the same",
        ),
        pytest.param(
            Cluster(replicas=replicas(3, 1500, age=timedelta(hours=12))),
            {10: lower_others_for_ever},
            [1500, 1000],
            3,
            id="pods older than the lifetime threshold follow a change of more than ten percent",
        ),
    ],
)
def test_four_hours(
    cluster: Cluster,
    events: Mapping[int, Callable[[Cluster], None]],
    targets: Sequence[int],
    evictions: int,
) -> None:
    run(cluster, 4, at=events)

    assert cluster.targets == targets
    assert cluster.evictions == evictions


@pytest.mark.parametrize(
    ("event", "then"),
    [
        pytest.param(scale_out, 1200, id="less room"),
        pytest.param(others_leave, 2500, id="more room"),
    ],
)
def test_targets_follow_half_an_hour_later(event: Callable[[Cluster], None], then: int) -> None:
    cluster = Cluster(replicas=replicas(3, 1500))
    minutes = PATIENCE // MINUTE

    run(cluster, (minutes + 10) / 60, at={10: event})
    assert cluster.targets == [1500]
    run(cluster, 1 / 60, at={})
    assert cluster.targets == [1500, then]


def test_a_target_grows_to_the_smallest_that_fitted_within_half_an_hour() -> None:
    cluster = Cluster(replicas=replicas(3, 1500))

    run(cluster, 1, at={10: others_leave, 20: half_of_others_return})

    assert cluster.targets == [1500, 2000]


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """One of several workloads that share the quota, with one container."""

    wanted: int
    least: int
    pods: int

    @property
    def workload(self) -> QuotaWorkload:
        sums = {"requests.cpu": PodSum((PhaseSum(0, {"app": Fraction(1)}),))}
        targets = {CPU: {"app": self.wanted}}
        wanted = WantedTargets(
            uncapped=targets, targets=targets, minimums={CPU: {"app": self.least}}
        )
        return QuotaWorkload(
            pods=self.pods,
            uses=(),
            facts=ScopeFacts(is_best_effort=False, is_terminating=False, priority_class=""),
            sums=sums,
            claims=quota_claims(sums, wanted, self.pods),
        )


AMOUNTS = st.integers(1, 3000)
DEMANDS = st.builds(Demand, wanted=AMOUNTS, least=AMOUNTS, pods=st.integers(1, 4))
CYCLES = st.tuples(st.integers(1, 40), AMOUNTS, st.lists(DEMANDS, min_size=2, max_size=2))


@given(st.lists(CYCLES, min_size=1, max_size=8))
def test_rollouts_fit_the_quota_or_a_condition_says_why_not(
    cycles: list[tuple[int, int, list[Demand]]],
) -> None:
    """Minutes until the cycle, usage of others and demands change from cycle to cycle."""
    published: dict[int, Targets] = {}
    was_lowered = set[int]()
    states: dict[int, Mapping[str, QuotaState]] = {}
    now = START
    for minutes, others, demands in cycles:
        now += minutes * MINUTE
        workloads = {key: each.workload for key, each in enumerate(demands)}
        bounds = quota_bounds([quota(others)], workloads)
        total, unmet = others, False
        for key, each in enumerate(demands):
            found = within_quotas(
                processed(cpu_alone(each.wanted)),
                bounds[key],
                {"app": {CPU: each.least, MEMORY: 1}},
                published=published.get(key, {}),
                was_lowered={CPU} if key in was_lowered else (),
                states=states.get(key, {}),
                now=now,
            )
            (amounts,) = found.processed.amounts
            target = amounts.target[CPU].milli
            assert min(each.least, each.wanted) <= target <= each.wanted
            unmet = unmet or any(not one.is_met for one in found.findings)
            total += each.pods * target
            published[key], states[key] = {"app": {CPU: target}}, found.states
            if target < each.wanted:
                was_lowered.add(key)
            else:
                was_lowered.discard(key)
        assert total <= HARD or unmet
