"""The recommender's flags, from the command line of its pod."""

from collections.abc import Sequence
from dataclasses import dataclass

from common.api.autoscaling import VerticalPodAutoscaler
from common.errors import ConfigError
from common.flags import read_flags
from kubectl_vpa.cluster.components import Components
from kubectl_vpa.cluster.reader import Reader
from kubectl_vpa.judge.findings import RECOMMENDER, ComponentPod
from kubectl_vpa.judge.usage_model import ModelSettings
from recommender.publish.status_decision import PublishingSettings
from recommender.settings import RecommenderSettings

_DEFAULT = frozenset({"default"})
_UNSEEN = "the flags of the recommender can't be seen, so their defaults are assumed"


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenFlags:
    """The settings of a recommender, and where they were read."""

    settings: RecommenderSettings
    pod: str = ""  # namespace and name; empty: the defaults are assumed


async def recommender_flags(
    components: Components, reader: Reader, vpas: Sequence[VerticalPodAutoscaler]
) -> SeenFlags:
    """Return the flags of the recommender that handles the first of these VPAs.

    If there is no pod, or its flags can't be read, return the defaults, with a note. VPAs of other
    recommenders are noted.
    """
    named = _recommenders(vpas[0]) if vpas else _DEFAULT
    others = sum(_recommenders(vpa) != named for vpa in vpas)
    if others:
        reader.note(f"flags of other recommenders, which {others} of these VPAs have")
    for pod in await components.pods(RECOMMENDER):
        try:
            settings = read_flags(RecommenderSettings, _flags(pod))
        except ConfigError as error:
            reader.note(f"flags of pod {pod.namespace}/{pod.name}: {error}")
            continue
        if settings.recommender_name in named:
            return SeenFlags(settings=settings, pod=f"{pod.namespace}/{pod.name}")
    reader.note(_UNSEEN)
    return SeenFlags(settings=RecommenderSettings())


def _recommenders(vpa: VerticalPodAutoscaler) -> frozenset[str]:
    return frozenset(each.name for each in vpa.spec.recommenders or ()) or _DEFAULT


def publishing(settings: RecommenderSettings) -> PublishingSettings:
    """Return the settings that decide the numbers from given usage."""
    return PublishingSettings(estimation=settings.estimation, publication=settings.publication)


def counting(settings: RecommenderSettings) -> ModelSettings:
    """Return the settings that decide how usage is counted."""
    return ModelSettings(
        rules=settings.aggregation, half_lives=settings.half_lives, gates=settings.feature_gates
    )


def _flags(pod: ComponentPod) -> Sequence[str]:
    """Return the arguments from the first flag on; a program and its module may precede it."""
    start = next(
        (at for at, each in enumerate(pod.arguments) if each.startswith("--")), len(pod.arguments)
    )
    return pod.arguments[start:]
