"""Comparison of this checkout with another: ``make bench-ratios BENCH='--base=/path/to/other'``.

Both are measured alternately, and medians of the rounds are compared, because other programs use
the machine, too. The figures: CPU of a review; CPU of an eviction and a resize, of the whole
updater and of the client alone; CPU of a recommender cycle with default limits, and its peak
memory; CPU from start to ready, and memory, of an idle component in a pod.
"""

import argparse
import base64
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path

import yaml

from benchmarks import admission, recommender, updater
from benchmarks.admission_world import Size
from benchmarks.load_world import (
    Component,
    Load,
    await_that,
    load_mode,
    machine,
    medians,
    process,
)
from certs import authority
from common.runtime.clock import SystemClock
from demo.processes import free_port

OURS = Path(__file__).resolve().parent.parent

# Maximum ratio to the other checkout, by figure.
BARS = {
    "CPU for a review, us": 1.5,
    "CPU of the updater for an eviction, ms": 1.6,
    "CPU of the updater for a resize, ms": 1.6,
    **{f"CPU of a cycle with {vpas} VPAs, s": 1.3 for vpas in recommender.SIZES},
    **{f"memory of {vpas} VPAs, MiB": 1.05 for vpas in recommender.SIZES},
}
# Maximum, by figure.
LIMITS = {
    "recommender: memory when idle, MiB": 105.0,
    "updater: memory when idle, MiB": 90.0,
    "admission: memory when idle, MiB": 90.0,
    **{f"{name}: CPU until ready, s": 1.5 for name in ("recommender", "updater", "admission")},
}

# Runs a component with its service account in a given folder, in old and new checkouts.
_IN_POD = """
import runpy, sys
from pathlib import Path
from common.kube import config
folder = Path(sys.argv.pop(1))
if hasattr(config, "SERVICE_ACCOUNT"):
    config.SERVICE_ACCOUNT = folder
else:
    from kubernetes_asyncio.config import incluster_config
    incluster_config.SERVICE_TOKEN_FILENAME = str(folder / "token")
    incluster_config.SERVICE_CERT_FILENAME = str(folder / "ca.crt")
sys.argv = sys.argv[1:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


def reviews(checkout: Path, folder: Path, *, seconds: float) -> dict[str, float]:
    """Return the CPU of the webhook per review, with 64 connections."""
    size = Size(vpas=1, replica_sets=1)
    bodies = admission.bodies_of(size)
    with admission.webhook(size, folder, (), environ={"PYTHONPATH": str(checkout)}) as target:
        admission.load(target, bodies, connections=64, seconds=1)
        found = admission.load(target, bodies, connections=64, seconds=seconds)
    return {"CPU for a review, us": found.server_cpu}


def actions(checkout: Path, folder: Path, *, pods: int) -> dict[str, float]:
    """Return the CPU of the updater per eviction and per resize, including Events."""
    size = updater.Size(pods=pods, vpas=pods // 10, tls=True)
    found = {}
    for kind, name in ((updater.EVICTIONS, "an eviction"), (updater.RESIZES, "a resize")):
        figures = updater.act(
            kind,
            size,
            folder / kind.name,
            delay=0,
            interval=10.0,
            flags=(),
            environ={"PYTHONPATH": str(checkout)},
        )
        found[f"CPU of the updater for {name}, ms"] = figures["cpu"]
    return found


def calls(checkout: Path, folder: Path, *, number: int) -> dict[str, float]:
    """Return the CPU of the client alone for the same two calls."""
    folder.mkdir()
    vpas = f"--vpas={number // 2}"
    with load_mode(folder, vpas, "--pods-per-vpa=10", "--group-size=2", "--tls=true") as load:
        program = OURS / "benchmarks" / "api_calls.py"
        done = subprocess.run(
            [
                sys.executable,
                "-P",
                str(program),
                f"--kubeconfig={load.kubeconfig}",
                f"--calls={number}",
            ],
            env={**os.environ, "PYTHONPATH": str(checkout)},
            capture_output=True,
            check=True,
        )
    found: Mapping[str, float] = json.loads(done.stdout)
    return {f"CPU of the client for one {name}, us": cpu for name, cpu in found.items()}


def cycles(
    checkout: Path, folder: Path, *, sizes: Sequence[int], number: int, interval: float
) -> dict[str, float]:
    """Return the CPU of a steady cycle of the recommender, and its peak memory."""
    asked = recommender.Asked(cycles=number, rollouts=0, interval=interval, tls=True, flags=())
    found = {}
    for vpas in sizes:
        figures = recommender.measure(
            vpas,
            recommender.DEFAULT,
            asked,
            folder / f"{vpas}",
            environ={"PYTHONPATH": str(checkout)},
        )
        found[f"CPU of a cycle with {vpas} VPAs, s"] = figures["cpu"]
        found[f"CPU until the first of {vpas} statuses, s"] = figures["start cpu"]
        found[f"memory of {vpas} VPAs, MiB"] = figures["peak"]
    return found


def idle(checkout: Path, folder: Path) -> dict[str, float]:
    """Return the CPU until ready and the memory of each component, with one VPA and one pod."""
    folder.mkdir()
    found = {}
    for name in ("recommender", "updater", "admission"):
        own = folder / name
        own.mkdir()
        with (
            load_mode(own, "--vpas=1", "--pods-per-vpa=1", "--tls=true") as load,
            _in_pod(name, load, own, checkout) as running,
        ):
            await_that(running.is_ready, f"the {name} to be ready", every=0.05)
            found[f"{name}: CPU until ready, s"] = running.cpu
            running.wait_quiet()
            found[f"{name}: memory when idle, MiB"] = running.rss
    return found


@contextlib.contextmanager
def _in_pod(name: str, load: Load, folder: Path, checkout: Path) -> Iterator[Component]:
    """Run a component that finds the API server through its service account."""
    content = yaml.safe_load(load.kubeconfig.read_text())
    cluster, user = content["clusters"][0]["cluster"], content["users"][0]["user"]
    (folder / "ca.crt").write_bytes(base64.b64decode(cluster["certificate-authority-data"]))
    (folder / "token").write_text(user["token"])
    (folder / "in_pod.py").write_text(_IN_POD)
    host, _, port = load.url.rpartition("/")[2].partition(":")
    ops, log = free_port(), folder / "component.log"
    flags = [f"--address=127.0.0.1:{ops}"]
    if name == "admission":
        flags += [f"--port={free_port()}", "--register-webhook=false", *_certificates(folder)]
    environ = {
        "KUBERNETES_SERVICE_HOST": host,
        "KUBERNETES_SERVICE_PORT": port,
        "PYTHONPATH": f"{checkout}{os.pathsep}{folder}",
    }
    with process("in_pod", str(folder), name, *flags, log=log, environ=environ) as pid:
        yield Component(pid, ops, log)


def _certificates(folder: Path) -> list[str]:
    bundle = authority.create(
        ["127.0.0.1"],
        make_key=authority.rsa_key,
        now=SystemClock().now(),
        lifetime=timedelta(days=1),
    )
    flags = {
        "client-ca-file": bundle.authority.certificate,
        "tls-cert-file": bundle.server.certificate,
        "tls-private-key": bundle.server.key,
    }
    for name, content in flags.items():
        (folder / name).write_bytes(content)
    return [f"--{name}={folder / name}" for name in flags]


def show(base: Mapping[str, float], ours: Mapping[str, float]) -> bool:
    """Print a line per figure; return whether each is within its bar."""
    print(f"{'':48}{'base':>10}{'here':>10}{'ratio':>8}{'bar':>12}")
    good = True
    for name, value in ours.items():
        ratio = value / base[name]
        bar = ""
        if name in BARS:
            good, bar = good and ratio <= BARS[name], f"x {BARS[name]:g}"
        elif name in LIMITS:
            good, bar = good and value <= LIMITS[name], f"{LIMITS[name]:g}"
        print(f"{name:48}{base[name]:10.2f}{value:10.2f}{ratio:8.2f}{bar:>12}")
    return good


def main() -> int:
    """Measure, print, and return 0 if every figure is within its bar."""
    parser = argparse.ArgumentParser(description="Compare this checkout with another one.")
    parser.add_argument("--base", type=Path, required=True, help="the other checkout")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0, help="of the reviews in a round")
    parser.add_argument("--pods", type=int, default=4000, help="half of them are acted on")
    parser.add_argument("--calls", type=int, default=3000, help="of the client alone")
    parser.add_argument("--vpas", type=int, nargs="*", default=[1000], help="of the recommender")
    parser.add_argument("--cycles", type=int, default=5, help="steady cycles of the recommender")
    parser.add_argument("--interval", type=float, default=15.0, help="seconds between its cycles")
    parser.add_argument("--only", choices=("reviews", "actions", "calls", "cycles", "idle"))
    asked = parser.parse_args()
    kinds: Mapping[str, Callable[[Path, Path], dict[str, float]]] = {
        "reviews": lambda checkout, at: reviews(checkout, at, seconds=asked.seconds),
        "actions": lambda checkout, at: actions(checkout, at, pods=asked.pods),
        "calls": lambda checkout, at: calls(checkout, at, number=asked.calls),
        "cycles": lambda checkout, at: cycles(
            checkout, at, sizes=asked.vpas, number=asked.cycles, interval=asked.interval
        ),
        "idle": idle,
    }
    sides: Mapping[Path, list[dict[str, float]]] = {asked.base.resolve(): [], OURS: []}
    print(machine(aiohttp="aiohttp", fastapi="fastapi", uvicorn="uvicorn"))
    with tempfile.TemporaryDirectory() as temporary:
        for number in range(asked.rounds):
            for side, (checkout, rounds) in enumerate(sides.items()):
                found: dict[str, float] = {}
                for kind, measure in kinds.items():
                    if asked.only in (None, kind):
                        found |= measure(checkout, Path(temporary, f"{kind}-{number}-{side}"))
                rounds.append(found)
    base, ours = (medians(rounds) for rounds in sides.values())
    return 0 if show(base, ours) else 1


if __name__ == "__main__":
    sys.exit(main())
