"""Print a Grafana dashboard as JSON: ``make monitoring``."""

import json
import sys
from collections.abc import Iterator
from typing import Any

from fleet_row import FLEET
from health_row import HEALTH
from panel import Panel
from vpa_row import VPA

WIDTH, HEIGHT = 24, 8  # of a dashboard, and of a panel
DATA_SOURCE = {"type": "prometheus", "uid": "${datasource}"}

ROWS = (FLEET, HEALTH, VPA)

# The first series has every VPA, with --container-metrics; the second those that act.
_NAMES = '{__name__=~"vpa_recommender_container_target|vpa_updater_evicted_pods_total"'


def _variables() -> list[dict[str, Any]]:
    source = {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
    }
    namespace = _variable("namespace", "Namespace", f"label_values({_NAMES}}}, vpa_namespace)")
    name = f'label_values({_NAMES},vpa_namespace="$namespace"}}, vpa_name)'
    return [source, namespace, _variable("vpa", "VPA", name)]


def _variable(name: str, label: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": DATA_SOURCE,
        "definition": query,
        "query": {"query": query, "refId": name},
        "refresh": 2,  # when the time range changes
        "sort": 1,
    }


def _panel(number: int, panel: Panel, position: dict[str, int]) -> dict[str, Any]:
    options: dict[str, Any] = {"legend": {"displayMode": "list", "placement": "bottom"}}
    if panel.kind == "stat":
        options = {"reduceOptions": {"calcs": ["lastNotNull"]}, "textMode": "value_and_name"}
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": DATA_SOURCE,
        "gridPos": position,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": options,
        "targets": [
            {
                "refId": chr(ord("A") + place),
                "datasource": DATA_SOURCE,
                "expr": query.expr,
                "legendFormat": query.legend,
            }
            for place, query in enumerate(panel.queries)
        ],
    }


def _laid_out() -> Iterator[dict[str, Any]]:
    """Yield rows and panels with their positions, from left to right and from top to bottom."""
    number, top = 0, 0
    for row in ROWS:
        number += 1
        position = {"x": 0, "y": top, "w": WIDTH, "h": 1}
        yield {
            "id": number,
            "type": "row",
            "title": row.title,
            "collapsed": False,
            "gridPos": position,
            "panels": [],
        }
        left, top = 0, top + 1
        for panel in row.panels:
            number += 1
            if left + panel.width > WIDTH:
                left, top = 0, top + HEIGHT
            yield _panel(number, panel, {"x": left, "y": top, "w": panel.width, "h": HEIGHT})
            left += panel.width
        top += HEIGHT


def dashboard() -> dict[str, Any]:
    """Return the dashboard, as Grafana imports it."""
    return {
        "uid": "vpa",
        "title": "Vertical Pod Autoscaler",
        "tags": ["vpa"],
        "schemaVersion": 39,
        "editable": True,
        "graphTooltip": 1,  # a shared crosshair
        "time": {"from": "now-6h", "to": "now"},
        "refresh": "1m",
        "templating": {"list": _variables()},
        "panels": list(_laid_out()),
    }


def main() -> None:
    """Print the dashboard."""
    json.dump(dashboard(), sys.stdout, indent=1)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
