"""The load mode of the sandbox and one of our components, each a process of its own, measured.

CPU and memory are what the kernel says of a process; what it asked for is what the load mode
counted.
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

PATIENCE = 600.0  # seconds for anything to happen
QPS = 100_000  # of the client's own limits: out of the way

Environ = Mapping[str, str]
NO_CHANGE: Environ = {}

_TICK = os.sysconf("SC_CLK_TCK")
_QUIET = 0.05  # CPU seconds within the next: nothing but watches and health
_QUIET_SECONDS = 3.0  # a busy machine gives nobody less than this leaves room for
_PING_SECONDS = 0.05  # often enough for blocks that matter, too rarely to cost anything
_CYCLING = ("recommender", "updater")


class TooSlowError(Exception):
    """It took longer than anybody waits; the text says what."""


def machine(**libraries: str) -> str:
    """What was measured on; ``libraries`` are further packages, by the names to show."""
    load = "/".join(f"{each:.1f}" for each in os.getloadavg())
    shown = {"uvloop": "uvloop", **libraries}
    versions = [f"Python {platform.python_version()}"]
    versions += [f"{name} {version(package)}" for name, package in shown.items()]
    return f"{os.cpu_count()} cores, load {load}; {', '.join(versions)}"


def medians(rounds: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Of every figure; of complaints the most."""
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
        """Seconds that it has used."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICK

    @property
    def rss(self) -> float:
        """Resident memory, MiB."""
        return self._status("VmRSS")

    @property
    def peak_rss(self) -> float:
        """The most that it ever was, MiB."""
        return self._status("VmHWM")

    def _status(self, name: str) -> float:
        text = Path(f"/proc/{self.pid}/status").read_text()
        found = re.search(rf"^{name}:\s+(\d+) kB", text, re.MULTILINE)
        return int(found[1]) / 1024 if found else 0.0

    def wait_quiet(self) -> None:
        """Until it has used next to no CPU for a few seconds."""
        until = time.monotonic() + PATIENCE
        before = self.cpu
        while time.monotonic() < until:
            time.sleep(_QUIET_SECONDS)
            now = self.cpu
            if now - before < _QUIET:
                return
            before = now
        raise TooSlowError("it never came to rest: a pass takes longer than the interval")

    def wait_busy(self) -> None:
        """Until it uses CPU again."""
        before = self.cpu
        await_that(lambda: self.cpu - before >= _QUIET * 2, "it to work", every=0.5)


@dataclass(frozen=True, slots=True)
class Load(Watched):
    """The load mode."""

    url: str
    kubeconfig: Path

    def report(self) -> dict[str, Any]:
        """What it was asked for since the last reset."""
        found: dict[str, Any] = self._ask("GET")
        return found

    def reset(self) -> None:
        self._ask("DELETE")

    def evict(self, namespace: str, name: str) -> None:
        """Let a pod be replaced, as the eviction API would."""
        self._ask("POST", f"/api/v1/namespaces/{namespace}/pods/{name}/eviction", b"{}")

    def _ask(self, method: str, path: str = REPORT, body: bytes | None = None) -> Any:
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE  # its certificate was made a moment ago, on loopback
        asked = urllib.request.Request(self.url + path, method=method, data=body)
        with urllib.request.urlopen(asked, timeout=60, context=context) as answer:
            return json.load(answer)


@dataclass(frozen=True, slots=True)
class Component(Watched):
    """The process under test."""

    ops_port: int
    log: Path

    def is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.ops_port}/readyz", timeout=10):
                return True
        except OSError:
            return False

    def passes(self) -> int:
        """How many cycles have ended; the whole page of metrics would take half a second of CPU."""
        named = [f"vpa_{name}_execution_latency_seconds_count" for name in _CYCLING]
        query = urllib.parse.urlencode({"name[]": named}, doseq=True)
        url = f"http://127.0.0.1:{self.ops_port}/metrics?{query}"
        with urllib.request.urlopen(url, timeout=60) as it:
            text = it.read().decode()
        found = re.search(r'execution_latency_seconds_count\{step="total"\} (\d+)', text)
        return int(found[1]) if found else 0

    @property
    def complaints(self) -> list[str]:
        """Warnings and errors of its log, in klog's form."""
        return [line for line in self.log.read_text().splitlines() if line[:1] in ("W", "E", "T")]


@dataclass
class Pings:
    """Asks ``/health-check`` all the time; an answer that is late tells of a blocked loop."""

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
                    continue  # the process has only begun
            was_there = True
            self.longest = max(self.longest, time.perf_counter() - began)
        connection.close()

    def running(self) -> AbstractContextManager[None]:
        """Ask until the block ends."""
        return meanwhile(self._run, self._stop)


@contextmanager
def meanwhile(run: Callable[[], None], stop: threading.Event) -> Iterator[None]:
    """Let ``run`` work in a thread until the block ends, which sets ``stop``."""
    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@contextmanager
def load_mode(folder: Path, *flags: str) -> Iterator[Load]:
    """A load mode with these flags, until the block ends."""
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
    """A component against the load mode, once its caches have synced."""
    with started(name, load, folder, *flags, environ=environ) as found:
        await_that(found.is_ready, f"the {name} to be ready", every=0.2)
        yield found


@contextmanager
def started(
    name: str, load: Load, folder: Path, *flags: str, environ: Environ = NO_CHANGE
) -> Iterator[Component]:
    """The same from the moment that the process begins."""
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
    """Wait for something, and raise TooSlowError if it doesn't come."""
    until = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > until:
            raise TooSlowError(f"waited for {what}; the logs are in the folder of --folder")
        time.sleep(every)


def _leave(number: int, _: FrameType | None) -> None:
    sys.exit(128 + number)


@contextmanager
def process(*command: str, log: Path, environ: Environ = NO_CHANGE) -> Iterator[int]:
    """A Python module as a process, ended with the block, and when we are told to end; its pid.

    Its environment is ours with the changes of ``environ``.
    """
    signal.signal(signal.SIGTERM, _leave)  # by itself it would end us without any block's end
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
