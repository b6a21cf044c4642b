"""Recommendations from the history in Prometheus, read and counted as the recommender does."""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from common.api.autoscaling import VerticalPodAutoscaler
from common.errors import DecodeError
from common.features import FeatureGates
from common.kube.endpoints import PODS, WORKLOADS
from common.kube.scales import ScaleFound, Scales
from common.kube.targets import own_selector
from common.labels import LabelSelectorError, Selector, parse_selector
from common.quantity import QuantityError
from common.runtime.clock import Clock
from common.target.owners import Controller
from common.version import user_agent
from kubectl_vpa.cluster.reader import Reader
from kubectl_vpa.cluster.workloads import Vpas
from kubectl_vpa.judge.usage_model import recommended
from recommender.metrics import RecommenderMetrics
from recommender.model.timestamps import instant
from recommender.model.usage import Usage
from recommender.sources.conversion import container_rules, pod_facts, vpa_key
from recommender.sources.namespace_history import NamespaceHistory
from recommender.sources.prometheus import Prometheus, PrometheusError, PrometheusServer
from recommender.sources.usage_source_settings import UsageSourceSettings

_CONCURRENT = 4  # namespaces whose history is in memory at the same time
_ATTEMPTS = 3  # for each namespace, with smaller and smaller responses
_NO_USAGE = (
    "usage in Prometheus: none has the job and the labels that the flags name; for "
    "kube-prometheus-stack use --prometheus-cadvisor-job-name=kubelet "
    "--container-pod-name-label=pod --container-name-label=container"
)


async def recommended_by_history(
    reader: Reader,
    vpas: Vpas,
    settings: UsageSourceSettings,
    *,
    environ: Mapping[str, str],
    clock: Clock,
) -> Vpas:
    """Return those VPAs for which there is usage, with a recommendation in their status.

    It is what the recommender publishes if it knows nothing but this history. A namespace whose
    history can't be read is left out, with a note. ``environ`` may have user and password.

    Raises:
        ConfigError: the address is invalid, or the token's file can't be read.
    """
    server = PrometheusServer.of(settings, environ)
    prometheus = Prometheus(
        server, user_agent=user_agent("kubectl-vpa"), metrics=RecommenderMetrics()
    )
    scales, limit = Scales(reader.client), asyncio.Semaphore(_CONCURRENT)
    by_namespace: dict[str, dict[Controller, VerticalPodAutoscaler]] = {}
    for controller, vpa in vpas.items():
        by_namespace.setdefault(controller.namespace, {})[controller] = vpa
    found: dict[Controller, VerticalPodAutoscaler] = {}
    samples, is_complete, is_away = 0, True, False

    async def read(namespace: str) -> None:
        nonlocal samples, is_complete, is_away
        there, local = by_namespace[namespace], reader.elsewhere(namespace)
        async with limit:
            if is_away:
                return
            selectors = await _selectors(local, scales, tuple(there))
            usage = await _model(local, there, selectors, instant(clock.now()))
            history = NamespaceHistory(
                *(prometheus, settings, usage),
                model_lock=asyncio.Lock(),
                matched_only=True,
                clock=clock,
            )
            try:
                count = await _load(history, namespace)
            except (PrometheusError, DecodeError) as error:
                is_complete = False
                place = f" of {namespace}"
                if isinstance(error, PrometheusError) and error.away:
                    is_away, place = True, ""
                reader.note(f"history{place} in Prometheus: {error}")
                return
        samples += count
        reader.progress("samples of Prometheus", samples)
        statuses = recommended(usage, [there[each] for each in selectors], clock.now())
        for controller in selectors:
            if status := statuses.get(vpa_key(there[controller])):
                found[controller] = replace(there[controller], status=status)

    async with prometheus, asyncio.TaskGroup() as group:
        for namespace in sorted(by_namespace):
            group.create_task(read(namespace))
    if not samples and is_complete and vpas:
        reader.note(_NO_USAGE)
    return found


async def _selectors(
    reader: Reader, scales: Scales, controllers: Sequence[Controller]
) -> Mapping[Controller, Selector]:
    """Return the selectors of the controllers of one namespace; some may have none."""
    found: dict[Controller, Selector] = {}
    for endpoint in WORKLOADS:
        wanted = {
            each.name: each
            for each in controllers
            if each.is_well_known and each.kind == endpoint.kind
        }
        for item in (await reader.list(endpoint) or ()) if wanted else ():
            if controller := wanted.get(item.metadata.name):
                with contextlib.suppress(LabelSelectorError):
                    found[controller] = own_selector(item)
    for controller in controllers:
        if not controller.is_well_known:
            scale = await scales.current(controller)
            if isinstance(scale, ScaleFound) and scale.selector:
                with contextlib.suppress(LabelSelectorError):
                    found[controller] = parse_selector(scale.selector)
    return found


async def _model(
    reader: Reader, vpas: Vpas, selectors: Mapping[Controller, Selector], now: int
) -> Usage:
    """Return the model with the pods and VPAs of one namespace, without usage."""
    usage = Usage()
    for pod in await reader.list(PODS) or ():
        usage.put_pod(pod_facts(pod), now)
    for controller, selector in selectors.items():
        vpa = vpas[controller]
        with contextlib.suppress(QuantityError):
            rules = container_rules(vpa, per_vpa_config=FeatureGates().per_vpa_config)
            usage.put_autoscaler(vpa_key(vpa), selector, rules)
    return usage


async def _load(history: NamespaceHistory, namespace: str) -> int:
    """Add the history of one namespace to the model, and return the number of samples.

    Raises:
        PrometheusError: a query failed.
        DecodeError: a response is invalid.
    """
    for _ in range(_ATTEMPTS - 1):
        try:
            return (await history.load(namespace, {})).total()
        except PrometheusError as error:
            if error.away:
                raise
            history.request_less(namespace)
    return (await history.load(namespace, {})).total()
