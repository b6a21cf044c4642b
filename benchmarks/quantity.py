"""Benchmark of parsing 200,000 quantities: ``python -P benchmarks/quantity.py``.

The metrics of a large cluster contain as many each minute.
"""

import time
from collections.abc import Callable

from common.quantity import Quantity, parse_milli, parse_value

COUNT = 200_000
CPU = tuple(f"{index * 7919}n" for index in range(COUNT))
CPU_MILLI = tuple(f"{index % 4000}m" for index in range(COUNT))
MEMORY = tuple(f"{index * 13}Ki" for index in range(COUNT))
FRACTIONS = tuple(f"{index}.5Mi" for index in range(COUNT))
REQUESTS = ("100m", "250m", "1", "64Mi", "256Mi", "1Gi", "1.5Gi", "2") * (COUNT // 8)


def measure(name: str, parse: Callable[[str], object], texts: tuple[str, ...]) -> None:
    """Print the best of three runs."""
    best = min(_seconds(parse, texts) for _ in range(3))
    print(f"{name:<44} {best:6.3f} s for {len(texts):,}, {best / len(texts) * 1e6:5.2f} µs each")


def _seconds(parse: Callable[[str], object], texts: tuple[str, ...]) -> float:
    begin = time.perf_counter()
    for text in texts:
        parse(text)
    return time.perf_counter() - begin


def main() -> None:
    """Run all measurements."""
    measure("parse_milli, nanocores", parse_milli, CPU)
    measure("parse_milli, millicores", parse_milli, CPU_MILLI)
    measure("parse_value, Ki", parse_value, MEMORY)
    measure("parse_value, fractions (exact path)", parse_value, FRACTIONS)
    measure("Quantity.parse, texts seen before", Quantity.parse, REQUESTS)
    measure("Quantity.parse, texts never seen", Quantity.parse, FRACTIONS)


if __name__ == "__main__":
    main()
