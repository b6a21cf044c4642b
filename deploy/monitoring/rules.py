"""Print rules.yaml as a PrometheusRule, for the Prometheus Operator: ``make monitoring``."""

import sys
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).resolve().parent
HEADER = "# Made by `make monitoring` from rules.yaml. Don't edit.\n"


def prometheus_rule() -> dict[str, Any]:
    """Return the object with all groups of rules.yaml."""
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "vpa", "namespace": "kube-system", "labels": {"app": "vpa"}},
        "spec": yaml.safe_load((FOLDER / "rules.yaml").read_text("utf-8")),
    }


def main() -> None:
    """Print the manifest."""
    sys.stdout.write(HEADER + yaml.safe_dump(prometheus_rule(), sort_keys=False, width=120))


if __name__ == "__main__":
    main()
