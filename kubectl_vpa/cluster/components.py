"""The read API of the components, read through the API server's pod proxy.

The proxy needs the right to ``get`` ``pods/proxy`` in the namespace of the components. It is used
with the person's own credentials, and what a component answers covers all namespaces: callers ask
for what the person named. What can't be read is None, and a note says why.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar
from urllib.parse import quote

import msgspec

from common.api.decoding import decode
from common.errors import (
    ForbiddenError,
    KubeError,
    NotFoundError,
    UnauthorizedError,
    UnreachableError,
)
from common.kube.transport import Query
from common.read_model.page import ListMetadata, Overview
from common.read_model.recommender import VPA_PATH, VPAS_PATH, VpaDetail, VpaList, VpaSummary
from common.read_model.updater import (
    ACTIONS_PATH,
    PLAN_PATH,
    ActionList,
    PastAction,
    PlanList,
    PlannedVpa,
)
from kubectl_vpa.cluster.installation import component_pods
from kubectl_vpa.cluster.reader import Reader
from kubectl_vpa.judge.findings import COMPONENTS, RECOMMENDER, UPDATER, ComponentPod
from kubectl_vpa.judge.last_pass import LastPass
from kubectl_vpa.judge.updater_view import UpdaterView

T = TypeVar("T")
L = TypeVar("L", VpaList, PlanList, ActionList)

_SECONDS = 2.0  # for one answer; the API server itself waits for 30 seconds
_ALL_SECONDS = 6.0  # for all pages
_PAGE = 1000  # rows; the most that a component answers
_MOST_REPLICAS = 5  # that are asked for the leader
_OVERVIEW_PATH = "/api/v1"
_SYSTEM = "kube-system"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Leader:
    """The pod that answers for a component; without one ``problem`` says why."""

    pod: ComponentPod | None = None
    overview: Overview | None = None
    problem: str = ""


class Components:
    """The components of a cluster, found once.

    Nothing is noted about a component without pods: a cluster may run none, or hide them.
    """

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._found: Sequence[ComponentPod] | None = None
        self._leaders: dict[str, _Leader] = {}
        self._finding = asyncio.Lock()
        self._choosing = {name: asyncio.Lock() for name in COMPONENTS}

    async def overview(self, component: str) -> Overview | None:
        """Return version, identity and last pass of the leader of a component."""
        return (await self._leader(component)).overview

    async def vpas(self, *, namespace: str = "", name: str = "") -> Sequence[VpaSummary] | None:
        """Return what the recommender knows about VPAs; empty arguments stand for all."""
        found: list[VpaSummary] = []
        query = {"namespace": namespace, "name": name}
        read = await self._fold(
            RECOMMENDER, VPAS_PATH, VpaList, lambda page: found.extend(page.items), query
        )
        return None if read is None else found

    async def vpa(self, namespace: str, name: str) -> VpaDetail | None:
        """Return the recommender's explanation and histograms of one VPA.

        None also if the recommender doesn't know it.
        """
        path = VPA_PATH.format(namespace=quote(namespace, safe=""), name=quote(name, safe=""))
        leader = await self._leader(RECOMMENDER)
        if leader.pod is None:
            return None
        try:
            return await self._get(leader.pod, path, VpaDetail)
        except NotFoundError:
            return None
        except (KubeError, msgspec.DecodeError) as error:
            self._missed(_why(error, leader.pod))
            return None

    async def plan(
        self, take: Callable[[Sequence[PlannedVpa]], None], *, namespace: str = "", vpa: str = ""
    ) -> LastPass | None:
        """Pass the updater's last plan to ``take`` page by page; return the pass that made it.

        The pods of a large VPA may continue on the next page.
        """
        query = {"namespace": namespace, "vpa": vpa}
        read = await self._fold(UPDATER, PLAN_PATH, PlanList, lambda page: take(page.items), query)
        leader = await self._leader(UPDATER)
        if read is None or leader.pod is None:
            return None
        if read.last_pass is None:
            self._missed(f"{leader.pod.name} has not ended a pass yet")
            return None
        return LastPass.of(read.last_pass, leader.pod.flags.get("updater-interval", ""))

    async def view(self, *, now: datetime) -> UpdaterView:
        """Return the decisions of the updater's last pass; none, with a note, if it is too old."""
        view = UpdaterView()
        last = await self.plan(view.add, namespace=self._reader.namespace)
        if last is None or last.is_fresh(now):
            return view
        self._missed(f"the updater's last pass began at {last.at:%Y-%m-%d %H:%M} UTC")
        return UpdaterView()

    async def actions(self, *, namespace: str = "", vpa: str = "") -> Sequence[PastAction] | None:
        """Return the updater's last evictions and resizes, the newest first."""
        found: list[PastAction] = []
        query = {"namespace": namespace, "vpa": vpa}
        read = await self._fold(
            UPDATER, ACTIONS_PATH, ActionList, lambda page: found.extend(page.items), query
        )
        return None if read is None else found

    async def _fold(
        self,
        component: str,
        path: str,
        kind: type[L],
        take: Callable[[L], None],
        query: Mapping[str, str],
    ) -> ListMetadata | None:
        """Pass the pages of a list to ``take``; return the metadata of the first one.

        Pages after the time limit are missing, with a note.
        """
        leader = await self._leader(component)
        if leader.pod is None:
            return None
        wanted: dict[str, str | int] = {name: value for name, value in query.items() if value}
        wanted["limit"] = _PAGE
        first: ListMetadata | None = None
        try:
            async with asyncio.timeout(_ALL_SECONDS):
                while True:
                    page = await self._get(leader.pod, path, kind, query=wanted)
                    if page.metadata.leading is False:
                        problem = f"{leader.pod.name} no longer leads"
                        break
                    take(page)
                    first = first or page.metadata
                    if page.metadata.continue_ is None:
                        return first
                    wanted["continue"] = page.metadata.continue_
        except TimeoutError:
            problem = f"{leader.pod.name} has more than could be read in {_ALL_SECONDS:.0f} seconds"
        except (KubeError, msgspec.DecodeError) as error:
            problem = _why(error, leader.pod)
        self._missed(problem)
        return first

    async def pods(self, component: str) -> Sequence[ComponentPod]:
        """Return the pods of a component in one installation, the ready ones first."""
        async with self._finding:
            if self._found is None:
                self._found = await self._pods()
        pods = [each for each in self._found if each.component == component]
        return [each for each in pods if each.namespace == pods[0].namespace]

    async def _leader(self, component: str) -> _Leader:
        pods = await self.pods(component)
        async with self._choosing[component]:
            if component not in self._leaders:
                self._leaders[component] = await self._choose(pods)
        leader = self._leaders[component]
        if leader.problem:
            self._missed(leader.problem)
        return leader

    async def _pods(self) -> Sequence[ComponentPod]:
        """Return the pods of all components: those in kube-system first, and the ready ones.

        Everyone who may create pods can label one like a component.
        """
        apart = Reader(self._reader.client, "")  # its notes would read as if no pods were seen
        try:
            found = await component_pods(apart)
        except KubeError as error:
            self._missed(str(error))
            return ()
        if found is None:
            self._missed("you may not list pods in all namespaces")
        return sorted(found or (), key=_order)

    async def _choose(self, pods: Sequence[ComponentPod]) -> _Leader:
        """Ask all replicas of one installation at the same time, and return the one that leads."""
        asked = pods[:_MOST_REPLICAS]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._ask(pod)) for pod in asked]
        answers = [task.result() for task in tasks]
        for each in answers:
            if each.overview is not None and each.overview.leading is not False:
                return each
        for each in answers:
            if each.overview is not None:
                holder = each.overview.leader or "unknown"
                return _Leader(problem=f"the leader ({holder}) doesn't answer")
        return answers[0] if answers else _Leader()

    async def _ask(self, pod: ComponentPod) -> _Leader:
        try:
            return _Leader(pod=pod, overview=await self._get(pod, _OVERVIEW_PATH, Overview))
        except (KubeError, msgspec.DecodeError) as error:
            return _Leader(problem=_why(error, pod))

    async def _get(
        self, pod: ComponentPod, path: str, kind: type[T], *, query: Query | None = None
    ) -> T:
        body = await self._reader.client.request(
            "GET",
            f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}:{pod.port}/proxy{path}",
            query=query,
            retry=False,
            seconds=_SECONDS,
            timeout_is_outage=False,
        )
        return decode(msgspec.json.Decoder(kind), body)

    def _missed(self, problem: str) -> None:
        self._reader.note(f"what the components know: {problem}")


def _order(pod: ComponentPod) -> tuple[bool, str, bool]:
    return (pod.namespace != _SYSTEM, pod.namespace, not pod.ready)


def _why(error: KubeError | msgspec.DecodeError, pod: ComponentPod) -> str:
    """Return in words why a component could not be read.

    What as a rule holds for all components doesn't name the pod, so that it is noted once.
    """
    match error:
        case ForbiddenError():
            return f"you may not get pods/proxy in {pod.namespace}"
        case NotFoundError():
            return "they have no read API"
        case UnauthorizedError():
            return "they don't answer requests through this API server; use kubectl port-forward"
        case UnreachableError() if isinstance(error.__cause__, TimeoutError):
            return (
                f"no answer within {_SECONDS:.0f} seconds; "
                "a NetworkPolicy may keep the API server out"
            )
        case msgspec.DecodeError():
            return f"the answer of {pod.name} has an unexpected form: {error}"
        case _:
            return f"{pod.name}: {error}"
