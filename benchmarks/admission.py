"""Benchmark of the webhook's throughput, latency and memory: ``make bench-admission``.

The webhook is a separate process. The load comes over TLS on keep-alive connections, as from API
servers (:mod:`benchmarks.https_load`). A round measures each figure once. Medians of the rounds are
printed, because other programs use the machine, too.
"""

import argparse
import json
import ssl
import statistics
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from benchmarks import https_load
from benchmarks.admission_world import Size, decision_alone, review
from benchmarks.load_world import NO_CHANGE, Component, Environ, await_that, machine, process
from certs import authority
from common.runtime.clock import SystemClock
from demo.processes import free_port

BODIES = 500  # different pods, of different VPAs if there are that many
FIXED_RATE = 3000  # reviews per second
RATED_CONNECTIONS = 64
RATED_SECONDS = 20.0

BARS = {
    "cpu": 125.0,
    "p50 of 1": 0.25,
    "p99 of 64": 20.0,
    "p99 at rate": 5.0,
    "rss idle": 120.0,
    "rss full": 190.0,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The results of one run of the load generator; latencies in milliseconds."""

    rate: float  # reviews per second
    p50: float
    p99: float
    server_cpu: float  # microseconds per review
    server_cores: float
    client_cpu: float  # microseconds per review
    failed: int


@dataclass(frozen=True, slots=True)
class Webhook(Component):
    """The process under test, the port of its webhook and the file of its CA."""

    port: int
    ca: Path


@contextmanager
def webhook(
    size: Size, folder: Path, flags: Sequence[str], *, environ: Environ = NO_CHANGE
) -> Iterator[Webhook]:
    """Run a webhook against an API server of this size; yield when it is ready.

    Its environment is that of this process with the changes of ``environ``.
    """
    folder.mkdir()
    bundle = authority.create(
        ["127.0.0.1"],
        make_key=authority.rsa_key,
        now=SystemClock().now(),
        lifetime=timedelta(days=1),
    )
    files = {
        "ca.pem": bundle.authority.certificate,
        "cert.pem": bundle.server.certificate,
        "key.pem": bundle.server.key,
    }
    for name, content in files.items():
        (folder / name).write_bytes(content)
    port_file = folder / "port"
    counts = (f"--vpas={size.vpas}", f"--replica-sets={size.replica_sets}")
    api = ("benchmarks.admission_world", *counts, f"--port-file={port_file}")
    port, ops_port = free_port(), free_port()
    with process(*api, log=folder / "api.log"):
        await_that(port_file.exists, "the API server to start")
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(_kubeconfig(int(port_file.read_text())))
        command = (
            "admission",
            f"--kubeconfig={kubeconfig}",
            f"--port={port}",
            f"--address=127.0.0.1:{ops_port}",
            f"--tls-cert-file={folder / 'cert.pem'}",
            f"--tls-private-key={folder / 'key.pem'}",
            "--register-webhook=false",
            "--kube-api-qps=1000",
            "--kube-api-burst=1000",
            *flags,
        )
        log = folder / "webhook.log"
        with process(*command, log=log, environ=environ) as pid:
            found = Webhook(pid, ops_port, log, port, folder / "ca.pem")
            await_that(found.is_ready, "the webhook to be ready")
            found.wait_quiet()
            yield found


def bodies_of(size: Size) -> list[bytes]:
    """Return reviews of different pods."""
    stride = max(1, size.vpas // BODIES)
    return [review(number * stride % size.vpas, size, number) for number in range(BODIES)]


def load(
    target: Webhook, bodies: Sequence[bytes], *, connections: int, seconds: float, rate: int = 0
) -> Load:
    """Send reviews for ``seconds``, at ``rate`` per second or as fast as possible.

    At a fixed rate a latency starts when the request was due.
    """
    cpu = target.cpu
    found = https_load.send(
        target.port, bodies, connections=connections, seconds=seconds, rate=rate
    )
    used, answers = target.cpu - cpu, len(found.latencies)
    return Load(
        rate=answers / found.seconds,
        p50=found.percentile(50),
        p99=found.percentile(99),
        server_cpu=used / answers * 1e6,
        server_cores=used / found.seconds,
        client_cpu=found.cpu / answers * 1e6,
        failed=found.failed,
    )


def patched(target: Webhook) -> float:
    """Return the share of reviewed pods that got a patch; 1 means that all took the full path."""
    url = f"http://127.0.0.1:{target.ops_port}/metrics"
    with urllib.request.urlopen(url, timeout=10) as answer:
        text = answer.read().decode()
    name = "vpa_admission_controller_admission_pods_total"
    counts = {
        line.split()[0]: float(line.split()[1])
        for line in text.splitlines()
        if line.startswith(name)
    }
    return counts.get(f'{name}{{applied="true"}}', 0.0) / (sum(counts.values()) or 1.0)


def measure(
    size: Size, folder: Path, *, rounds: int, seconds: float, flags: Sequence[str]
) -> dict[str, float]:
    """Return all figures of one cluster size as medians of the rounds."""
    found: dict[str, list[float]] = {}

    def note(**figures: float) -> None:
        for name, value in figures.items():
            found.setdefault(name.replace("_", " "), []).append(value)

    with webhook(size, folder, flags) as target:
        bodies = bodies_of(size)
        note(rss=target.rss)
        load(target, bodies, connections=16, seconds=1)
        for _ in range(rounds):
            one = load(target, bodies, connections=1, seconds=seconds)
            note(p50_of_1=one.p50, p99_of_1=one.p99, cpu_of_1=one.server_cpu)
            full = load(target, bodies, connections=64, seconds=seconds)
            note(p50_of_64=full.p50, p99_of_64=full.p99, cpu=full.server_cpu)
            note(rate=full.rate, server_cores=full.server_cores, client_cpu=full.client_cpu)
            fixed = load(
                target,
                bodies,
                connections=RATED_CONNECTIONS,
                seconds=max(seconds, RATED_SECONDS),
                rate=FIXED_RATE,
            )
            note(rate_kept=fixed.rate, p50_at_rate=fixed.p50, p99_at_rate=fixed.p99)
            note(failed=float(one.failed + full.failed + fixed.failed))
            note(decision=decision_alone(size, BODIES))
        note(rss_after=target.rss, patched=patched(target))
    return {
        name: max(values) if name == "failed" else statistics.median(values)
        for name, values in found.items()
    }


_LINES = (
    ("cpu", "us", "server CPU for a review, 64 connections"),
    ("decision", "us", "more for the first pod of a template"),
    ("rate", "/s", "reviews, 64 connections"),
    ("server cores", "", "cores that the server used meanwhile"),
    ("client cpu", "us", "client CPU for a review, on the same machine"),
    ("cpu of 1", "us", "server CPU for a review, 1 connection"),
    ("p50 of 1", "ms", "median latency, 1 connection"),
    ("p99 of 1", "ms", "99th percentile"),
    ("p50 of 64", "ms", "median latency, 64 connections, closed loop"),
    ("p99 of 64", "ms", "99th percentile"),
    ("rate kept", "/s", f"reviews, of {FIXED_RATE} asked for"),
    ("p50 at rate", "ms", "median latency at that rate"),
    ("p99 at rate", "ms", "99th percentile"),
    ("rss", "MiB", "memory after the start"),
    ("rss after", "MiB", "memory after all reviews"),
    ("patched", "", "part of the pods that got a patch"),
    ("failed", "", "calls that failed or got no 200"),
)


def show(sizes: Mapping[str, Mapping[str, float]]) -> None:
    """Print a table with a line per figure and a column per size, and the bars."""
    print(f"{'':8}{'':5}{'':48}" + "".join(f"{name:>12}" for name in sizes) + f"{'bar':>8}")
    for name, unit, text in _LINES:
        values = "".join(f"{figures[name]:12.2f}" for figures in sizes.values())
        bar = BARS.get(name)
        shown = f"{bar:8g}" if bar is not None else ""
        print(f"{'':8}{unit:5}{text:48}{values}{shown}")
    first, *others = sizes.values()
    for other in others:
        print(f"ratio of the server's CPU, large to small: {other['cpu'] / first['cpu']:.3f}")
    bars = f"{BARS['rss idle']:g} MiB idle, {BARS['rss full']:g} MiB with everything"
    print(f"bars for memory after the start: {bars}")


def _kubeconfig(port: int) -> str:
    named = {"cluster": "bench", "user": "bench"}
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "bench", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
            "users": [{"name": "bench", "user": {"token": "none"}}],
            "contexts": [{"name": "bench", "context": named}],
            "current-context": "bench",
        }
    )


def main() -> int:
    """Measure, print the figures, and return 0 if every call was answered."""
    parser = argparse.ArgumentParser(description="Benchmark the webhook.")
    parser.add_argument("--vpas", type=int, default=5000)
    parser.add_argument("--replica-sets", type=int, default=60_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0, help="of one measurement")
    parser.add_argument("--only", choices=("small", "large"), help="one size of cluster alone")
    parser.add_argument("--folder", type=Path, help="a new folder that is kept, with all logs")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    parser.add_argument("flags", nargs="*", help="after --: flags of the webhook")
    asked = parser.parse_args()
    sizes = {
        "small": Size(vpas=1, replica_sets=1),
        "large": Size(vpas=asked.vpas, replica_sets=asked.replica_sets),
    }
    shown = f"{machine(uvicorn='uvicorn')}, {ssl.OPENSSL_VERSION}"
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.folder or Path(temporary, "bench")
        folder.mkdir()
        figures = {
            name: measure(
                size,
                folder / name,
                rounds=asked.rounds,
                seconds=asked.seconds,
                flags=asked.flags,
            )
            for name, size in sizes.items()
            if asked.only in (None, name)
        }
    if asked.output == "json":
        print(json.dumps({"machine": shown, **figures}, indent=2))
    else:
        print(shown)
        show(figures)
    return 1 if any(each["failed"] for each in figures.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
