"""The load mode of the sandbox and one component as separate, measured processes.

The kernel reports CPU and memory of a process; the load mode counts its calls.
"""

import contextlib
import http.client
import json
import os
import platform
import re
import signal
import ssl
import statistics
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from types import FrameType
from typing import Any

from demo.processes import free_port
from sandbox.load.server import REPORT

TIMEOUT = 600.0  # seconds; timeout of every wait
QPS = 100_000  # raises the client's own limits so that they have no effect

Environ = Mapping[str, str]
NO_CHANGE: Environ = {}

_TICK = os.sysconf("SC_CLK_TCK")
_QUIET = 0.05  # CPU seconds within _QUIET_SECONDS: only watches and health checks
_QUIET_SECONDS = 3.0
_PING_SECONDS = 0.05
_CYCLING = ("recommender", "updater")


class TooSlowError(Exception):
    """A wait timed out."""


def machine(**libraries: str) -> str:
    """Return a description of the machine; ``libraries`` are further packages by displayed name."""
    load = "/".join(f"{each:.1f}" for each in os.getloadavg())
    shown = {"uvloop": "uvloop", **libraries}
    versions = [f"Python {platform.python_version()}"]
    versions += [f"{name} {version(package)}" for name, package in shown.items()]
    return f"{os.cpu_count()} cores, load {load}; {', '.join(versions)}"


def log(name: str, text: str) -> None:
    """Report the progress of a measurement on stderr."""
    print(f"{time.strftime('%H:%M:%S')} {name}: {text}", file=sys.stderr, flush=True)


def medians(rounds: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the median of every figure, and the maximum of complaints."""
    return {
        name: (max if name == "complaints" else statistics.median)(each[name] for each in rounds)
        for name in rounds[0]
    }


@dataclass(frozen=True, slots=True)
class Watched:
    """A process that is measured from outside."""

    pid: int

    @property
    def cpu(self) -> float:
        """Return its CPU time in seconds."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICK

    @property
    def rss(self) -> float:
        """Return its resident memory in MiB."""
        return self._status("VmRSS")

    @property
    def peak_rss(self) -> float:
        """Return its peak resident memory in MiB."""
        return self._status("VmHWM")

    def _status(self, name: str) -> float:
        text = Path(f"/proc/{self.pid}/status").read_text()
        found = re.search(rf"^{name}:\s+(\d+) kB", text, re.MULTILINE)
        return int(found[1]) / 1024 if found else 0.0

    def wait_quiet(self) -> None:
        """Wait until it uses almost no CPU for a few seconds."""
        until = time.monotonic() + TIMEOUT
        before = self.cpu
        while time.monotonic() < until:
            time.sleep(_QUIET_SECONDS)
            now = self.cpu
            if now - before < _QUIET:
                return
            before = now
        raise TooSlowError("it never came to rest: a pass takes longer than the interval")

    def wait_busy(self) -> None:
        """Wait until it uses CPU again."""
        before = self.cpu
        await_that(lambda: self.cpu - before >= _QUIET * 2, "it to work", every=0.5)


@dataclass(frozen=True, slots=True)
class Load(Watched):
    """The load mode."""

    url: str
    kubeconfig: Path

    def report(self) -> dict[str, Any]:
        """Return the counts of requests since the last reset."""
        found: dict[str, Any] = self._ask("GET")
        return found

    def reset(self) -> None:
        self._ask("DELETE")

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Stop the process until the block ends: it answers nothing, and clients wait for it."""
        os.kill(self.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.pid, signal.SIGCONT)

    def evict(self, namespace: str, name: str) -> None:
        """Replace a pod, as the eviction API does."""
        self._ask("POST", f"/api/v1/namespaces/{namespace}/pods/{name}/eviction", b"{}")

    def _ask(self, method: str, path: str = REPORT, body: bytes | None = None) -> Any:
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE  # on loopback, with a new self-signed certificate
        asked = urllib.request.Request(self.url + path, method=method, data=body)
        with urllib.request.urlopen(asked, timeout=60, context=context) as answer:
            return json.load(answer)


@dataclass(frozen=True, slots=True)
class Component(Watched):
    """The component under test."""

    ops_port: int
    log: Path

    def is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.ops_port}/readyz", timeout=10):
                return True
        except OSError:
            return False

    def passes(self) -> int:
        """Return the number of finished cycles. All metrics would take 0.5 s of CPU."""
        named = [f"vpa_{name}_execution_latency_seconds_count" for name in _CYCLING]
        query = urllib.parse.urlencode({"name[]": named}, doseq=True)
        url = f"http://127.0.0.1:{self.ops_port}/metrics?{query}"
        with urllib.request.urlopen(url, timeout=60) as it:
            text = it.read().decode()
        found = re.search(r'execution_latency_seconds_count\{step="total"\} (\d+)', text)
        return int(found[1]) if found else 0

    @property
    def complaints(self) -> list[str]:
        """Return the warnings and errors of its log, in klog's format."""
        return [line for line in self.log.read_text().splitlines() if line[:1] in ("W", "E", "T")]


@dataclass
class Pings:
    """Probes ``/health-check`` continuously; a late answer means a blocked event loop."""

    port: int
    longest: float = 0.0  # seconds
    _stop: threading.Event = field(default_factory=threading.Event)

    def _run(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        was_there = False
        while not self._stop.wait(_PING_SECONDS):
            began = time.perf_counter()
            try:
                connection.request("GET", "/health-check")
                connection.getresponse().read()
            except OSError:
                connection.close()
                if not was_there:
                    continue  # the process is still starting
            was_there = True
            self.longest = max(self.longest, time.perf_counter() - began)
        connection.close()

    def running(self) -> AbstractContextManager[None]:
        """Probe until the block ends."""
        return meanwhile(self._run, self._stop)


@contextmanager
def meanwhile(run: Callable[[], None], stop: threading.Event) -> Iterator[None]:
    """Run ``run`` in a thread until the block ends, which sets ``stop``."""
    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@contextmanager
def load_mode(folder: Path, *flags: str) -> Iterator[Load]:
    """Run a load mode with these flags until the block ends."""
    kubeconfig = folder / "kubeconfig"
    command = ("sandbox.load", f"--kubeconfig={kubeconfig}", *flags)
    with process(*command, log=folder / "load.log") as pid:
        await_that(kubeconfig.exists, "the load mode to start")
        text = kubeconfig.read_text()
        found = re.search(r"server: (\S+)", text)
        if found is None:
            raise TooSlowError("the load mode has no address")
        yield Load(pid, found[1], kubeconfig)


@contextmanager
def component(
    name: str, load: Load, folder: Path, *flags: str, environ: Environ = NO_CHANGE
) -> Iterator[Component]:
    """Run a component against the load mode; yield when its caches have synced."""
    with started(name, load, folder, *flags, environ=environ) as found:
        await_that(found.is_ready, f"the {name} to be ready", every=0.2)
        yield found


@contextmanager
def started(
    name: str, load: Load, folder: Path, *flags: str, environ: Environ = NO_CHANGE
) -> Iterator[Component]:
    """Run a component against the load mode; yield when its process has started."""
    port = free_port()
    log = folder / f"{name}.log"
    command = (
        name,
        f"--kubeconfig={load.kubeconfig}",
        f"--address=127.0.0.1:{port}",
        f"--kube-api-qps={QPS}",
        f"--kube-api-burst={QPS}",
        *flags,
    )
    with process(*command, log=log, environ=environ) as pid:
        yield Component(pid, port, log)


def await_that(condition: Callable[[], bool], what: str, *, every: float = 0.05) -> None:
    """Wait for a condition.

    Raises:
        TooSlowError: it did not become true in time.
    """
    until = time.monotonic() + TIMEOUT
    while not condition():
        if time.monotonic() > until:
            raise TooSlowError(f"waited for {what}; the logs are in the folder of --folder")
        time.sleep(every)


def _leave(number: int, _: FrameType | None) -> None:
    sys.exit(128 + number)


@contextmanager
def process(*command: str, log: Path, environ: Environ = NO_CHANGE) -> Iterator[int]:
    """Run a Python module as a process until the block ends or SIGTERM arrives; yield its PID.

    Its environment is that of this process with the changes of ``environ``.
    """
    signal.signal(signal.SIGTERM, _leave)  # by default, SIGTERM skips the end of the blocks
    with log.open("wb") as output:
        started = subprocess.Popen(
            [sys.executable, "-P", "-m", *command],
            stdout=output,
            stderr=output,
            env={**os.environ, **environ},
        )
        try:
            yield started.pid
        finally:
            started.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                started.wait(timeout=20)
            started.kill()
            started.wait()
