"""Benchmark of ``kubectl vpa status -A`` and ``report -A``: ``make bench-cli``.

The program and the load mode of the sandbox, which answers with prepared bytes, are separate
processes on the same machine.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.load_world import TooSlowError, load_mode, machine

BARS = {"seconds": 10.0, "MiB": 300.0}
COMMANDS = (("status", "table"), ("status", "json"), ("report", "table"), ("report", "html"))


def measure(kubeconfig: Path, name: str, output: str) -> dict[str, float]:
    """Run a command once; return its duration, CPU time and peak memory."""
    command = ("-m", "kubectl_vpa", name, "-A", "-o", output, f"--kubeconfig={kubeconfig}")
    began = time.perf_counter()
    process = subprocess.Popen((sys.executable, "-P", *command), stdout=subprocess.PIPE)
    assert process.stdout is not None
    lines = process.stdout.read().count(b"\n")
    _, code, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(code)
    if process.returncode:
        raise TooSlowError(f"the command ended with {process.returncode}")
    return {
        "seconds": time.perf_counter() - began,
        "CPU seconds": used.ru_utime + used.ru_stime,
        "MiB": used.ru_maxrss / 1024,
        "lines": lines,
    }


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Benchmark kubectl vpa status and report.")
    parser.add_argument("--vpas", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    asked = parser.parse_args()
    size = (f"--vpas={asked.vpas}", f"--pods-per-vpa={asked.pods // asked.vpas}")
    try:
        with tempfile.TemporaryDirectory() as folder, load_mode(Path(folder), *size) as load:
            rounds = {
                f"{name} -o {output}": [
                    measure(load.kubeconfig, name, output) for _ in range(asked.rounds)
                ]
                for name, output in COMMANDS
            }
    except TooSlowError as error:
        print(f"bench-cli: {error}", file=sys.stderr)
        return 1
    if asked.output == "json":
        print(json.dumps({"machine": machine(), "rounds": rounds}, indent=2))
        return 0
    print(machine(rich="rich"))
    print(f"-A with {asked.vpas} VPAs and {asked.pods} pods; medians of {asked.rounds} runs")
    for name, runs in rounds.items():
        middle = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
        print(
            f"{name:<16} {middle['seconds']:5.1f} s (bar {BARS['seconds']:.0f}), "
            f"{middle['CPU seconds']:5.1f} s of CPU, "
            f"{middle['MiB']:4.0f} MiB (bar {BARS['MiB']:.0f}), {middle['lines']:.0f} lines"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
