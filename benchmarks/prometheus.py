"""A Prometheus for benchmarks that generates the history of the load mode's pods on request.

    python -P -m benchmarks.prometheus --port=9090 --vpas=1000 --pods-per-vpa=10

The series have the labels of cAdvisor, half a kilobyte each, and answers are compressed, as a real
server does. Several pods followed each other in each slot of a Deployment. ``GET /report`` returns
statistics of the answers.
"""

import argparse
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from aiohttp import web

from common.runtime.clock import SystemClock
from sandbox.load.layout import CONTAINERS, PODS_ON_A_NODE, Layout, uid

REPORT = "/report"
_NAMESPACE = re.compile(r'amespace="([^"]*)"')
_DAYS = 8  # of history
_GENERATIONS = 2  # pods of each slot, one after the other
_VARIANTS = 64  # different curves of usage; a container has one of them
_POD = 1  # kind of the UID


@dataclass(slots=True)
class Answered:
    """Statistics of the answers."""

    answers: int = 0
    series: int = 0
    points: int = 0
    bytes: int = 0  # before compression
    largest: int = 0  # bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """The usage of a layout's pods and of their predecessors."""

    layout: Layout
    now: float  # Unix seconds

    def series(self, query: str, times: Sequence[float]) -> Iterator[tuple[bytes, int]]:
        """Yield the series that answer a query, each with the number of its points."""
        found = _NAMESPACE.findall(query)
        vpas = self.layout.vpas_in(found[-1] if found else "")
        per_vpa = self.layout.pods_per_vpa
        slots = range(vpas.start * per_vpa, vpas.stop * per_vpa)
        if query.startswith("count("):
            texts = [str(len(slots) * len(CONTAINERS))] * len(times)
            yield _series({}, _values(times, texts)), len(times)
            return
        of_pods = query.startswith("last_over_time(")
        for age, part in self._lives(times):
            known = [_values(part, _usage(query, number, part)) for number in range(_VARIANTS)]
            for slot in slots:
                if of_pods:
                    yield _series(self._pod(slot, age), known[0]), len(part)
                    continue
                for number, name in enumerate(CONTAINERS):
                    labels = self._container(slot, age, name)
                    yield _series(labels, known[(slot + number) % _VARIANTS]), len(part)

    def _lives(self, times: Sequence[float]) -> Iterator[tuple[int, Sequence[float]]]:
        """Yield the points in each generation's lifetime; the present generation is 0."""
        span = _DAYS * 86_400 / _GENERATIONS
        for age in range(_GENERATIONS):
            part = [at for at in times if min(int((self.now - at) / span), _GENERATIONS - 1) == age]
            if part:
                yield age, part

    def _container(self, slot: int, age: int, name: str) -> dict[str, str]:
        pod = uid(_POD, slot, age)
        node = f"node-{slot // PODS_ON_A_NODE:05}"
        slices = "/kubepods.slice/kubepods-burstable.slice"
        digest = f"{slot:08x}" * 8
        return {
            "id": f"{slices}/kubepods-burstable-pod{pod}.slice/cri-containerd-{digest}.scope",
            "image": f"images.example/shop/{name}:1.27.3",
            "instance": node,
            "job": "kubernetes-cadvisor",
            "kubernetes_io_arch": "amd64",
            "kubernetes_io_hostname": node,
            "kubernetes_io_os": "linux",
            "name": name,
            "namespace": self._namespace(slot),
            "pod_name": self.layout.pod_name(slot, age),
            "topology_kubernetes_io_zone": "zone-a",
        }

    def _pod(self, slot: int, age: int) -> dict[str, str]:
        namespace = self._namespace(slot)
        return {
            "instance": f"node-{slot // PODS_ON_A_NODE:05}",
            "job": "kubernetes-pods",
            "kubernetes_namespace": namespace,
            "kubernetes_pod_name": self.layout.pod_name(slot, age),
            "pod_label_app": self.layout.app(slot // self.layout.pods_per_vpa),
            "pod_label_team": namespace,
            "pod_label_tier": "backend",
        }

    def _namespace(self, slot: int) -> str:
        return self.layout.namespace(slot // self.layout.pods_per_vpa)


def _usage(query: str, variant: int, times: Sequence[float]) -> list[str]:
    """Return cores or bytes: a level that depends on the variant, higher in some hours."""
    if query.startswith("rate("):
        return [f"{0.02 + 0.005 * variant + 0.001 * (at // 3600 % 17):.9f}" for at in times]
    return [str(2**26 + 2**20 * variant + 2**18 * int(at // 3600 % 13)) for at in times]


def _values(times: Sequence[float], texts: Sequence[str]) -> bytes:
    pairs = zip(times, texts, strict=True)
    return ("[" + ",".join(f'[{at:.3f},"{text}"]' for at, text in pairs) + "]").encode()


def _series(labels: Mapping[str, str], values: bytes) -> bytes:
    metric = json.dumps(labels, separators=(",", ":")).encode()
    return b'{"metric":' + metric + b',"values":' + values + b"}"


def application(archive: Archive) -> web.Application:
    """Return the application that answers range queries and reports."""
    answered = Answered()

    async def query(request: web.Request) -> web.Response:
        form = await request.post()
        start, end, step = (float(str(form[name])) for name in ("start", "end", "step"))
        times = [start + number * step for number in range(round((end - start) / step) + 1)]
        found = list(archive.series(str(form["query"]), times))
        head, tail = b'{"status":"success","data":{"resultType":"matrix","result":[', b"]}}\n"
        body = head + b",".join(text for text, _ in found) + tail
        answered.answers += 1
        answered.series += len(found)
        answered.points += sum(points for _, points in found)
        answered.bytes += len(body)
        answered.largest = max(answered.largest, len(body))
        answer = web.Response(body=body, content_type="application/json")
        answer.enable_compression()
        return answer

    async def report(_request: web.Request) -> web.Response:
        counts = {name: getattr(answered, name) for name in Answered.__slots__}
        return web.json_response(counts)

    made = web.Application()
    made.add_routes([web.post("/api/v1/query_range", query), web.get(REPORT, report)])
    return made


def main() -> None:
    """Serve until the process is terminated."""
    parser = argparse.ArgumentParser(description="A Prometheus for benchmarks.")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--vpas", type=int, required=True, help="as the load mode's")
    parser.add_argument("--pods-per-vpa", type=int, required=True, help="as the load mode's")
    given = parser.parse_args()
    per_vpa = given.pods_per_vpa
    layout = Layout(vpas=given.vpas, pods_per_vpa=per_vpa, group_size=per_vpa)
    archive = Archive(layout=layout, now=SystemClock().now().timestamp())
    web.run_app(application(archive), host="127.0.0.1", port=given.port, print=None)


if __name__ == "__main__":
    main()
