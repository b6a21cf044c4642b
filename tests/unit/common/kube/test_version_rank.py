"""The order of API versions; cases from "Version priority" in the Kubernetes documentation."""

import random

from common.kube.discovery import version_rank


def test_stable_versions_come_first_and_unknown_names_last() -> None:
    ordered = ["v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2"]
    shuffled = [*ordered, "foo1"]
    random.Random(1).shuffle(shuffled)
    assert sorted(shuffled, key=version_rank, reverse=True) == [*ordered, "foo1"]
