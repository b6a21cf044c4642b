"""The policy of a container compared with the reference."""

import msgspec

from common.api.autoscaling import ResourcePolicy
from common.recommendation.policy import container_policy, controlled_values
from golden_data import Differences, rows


def test_container_policy() -> None:
    differences = Differences()
    for row in rows("container_policy"):
        policy = msgspec.convert(row.input, ResourcePolicy | None)
        entries = (policy.container_policies if policy else None) or ()
        for name, want in row.expected.items():
            found = container_policy(policy, name)
            index = next((i for i, entry in enumerate(entries) if entry is found), -1)
            differences.check(row.id, f"{name} index", index, want["index"])
            got = controlled_values(found)
            differences.check(row.id, f"{name} values", got, want["controlled_values"])
    differences.none_in(1_000)
