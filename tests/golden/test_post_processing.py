"""Rounding, integer CPU and capping compared with the reference."""

from typing import Any

import msgspec

from common.api.autoscaling import RecommendedPodResources, ResourcePolicy
from common.quantity import Quantity
from common.recommendation.processing import ContainerAmounts, parse_recommendation
from common.resources import parse_quantities
from golden_data import Differences, rows
from recommender.estimate.post_processing import cap_stages, humanize, round_up, with_integer_cpu
from recommender.publish.status import to_status


def recommendation(raw: dict[str, Any]) -> tuple[ContainerAmounts, ...]:
    return parse_recommendation(msgspec.convert(raw, RecommendedPodResources))


def written(amounts: tuple[ContainerAmounts, ...]) -> Any:
    return msgspec.json.decode(msgspec.json.encode(to_status(amounts)))


def test_humanize_and_round_up() -> None:
    differences = Differences()
    for row in rows("amounts"):
        value = row.input.get("value", 0)
        if row.input["op"] == "humanize":
            text = humanize(value)
            differences.check(row.id, "text", text, row.expected["text"])
            got = str(Quantity.parse(text).canonical())
            differences.check(row.id, "quantity", got, row.expected["quantity"])
        elif row.input["op"] == "round_up":
            try:
                rounded, refused = round_up(value, row.input["scale"]), False
            except ValueError:
                rounded, refused = value, True
            differences.check(row.id, "refused", refused, row.expected["error"])
            differences.check(row.id, "value", rounded, row.expected["value"])
    differences.none_in(500)


def test_post_processors() -> None:
    differences = Differences()
    for row in rows("post_processors"):
        policy = msgspec.convert(row.input.get("policy"), ResourcePolicy | None)
        whole = with_integer_cpu(
            recommendation(row.input["recommendation"]), row.input.get("annotations") or {}
        )
        differences.check(row.id, "integer CPU", written(whole), row.expected["integer_cpu"])
        most = parse_quantities(row.input.get("global_max_allowed"))
        capped = cap_stages(whole, policy, most)[-1].amounts
        differences.check(row.id, "capped", written(capped), row.expected["then_capped"])
    differences.none_in(500)


def test_apply_vpa_policy() -> None:
    differences = Differences()
    for row in rows("apply_vpa_policy"):
        policy = msgspec.convert(row.input.get("policy"), ResourcePolicy | None)
        most = parse_quantities(row.input.get("global_max_allowed"))
        given = recommendation(row.input["recommendation"])
        capped = cap_stages(given, policy, most)[-1].amounts
        differences.check(row.id, "capped", written(capped), row.expected)
    differences.none_in(900)
