"""Each service account may do what its component declares that it calls, and nothing else."""

import re
import textwrap
from collections.abc import Iterable
from pathlib import Path

import pytest
import yaml

import admission.access
import certs.access
import recommender.access
import updater.access
from common.flags import read_flags
from common.kube.endpoints import LEASES, SECRETS, Access, Permission
from role_rules import DRY_RUN, bound_roles, granted, objects
from updater.settings import UpdaterSettings


def declared(access: Iterable[Access]) -> set[Permission]:
    return {permission for one in access for permission in one.permissions()}


@pytest.mark.parametrize(
    ("account", "access"),
    [
        ("vpa-recommender", recommender.access.ACCESS),
        ("vpa-updater", updater.access.ACCESS),
        ("vpa-admission-controller", admission.access.ACCESS),
        ("vpa-certs", certs.access.ACCESS),
    ],
)
def test_an_account_may_do_what_its_component_calls(
    account: str, access: tuple[Access, ...]
) -> None:
    may, does = granted(bound_roles(account)), declared(access)
    assert (sorted(does - may), sorted(may - does)) == ([], []), "(missing, excess)"


def test_the_dry_run_component_grants_what_the_flag_takes() -> None:
    may = granted(bound_roles("vpa-updater", folder=DRY_RUN))
    assert may == declared(updater.access.REPLACEMENT_DRY_RUN)
    (binding,) = objects("ClusterRoleBinding", folder=DRY_RUN)
    assert [subject["name"] for subject in binding["subjects"]] == ["vpa-updater"]


def test_pods_may_be_created_by_the_component_and_in_a_dry_run_only() -> None:
    own = granted(objects("ClusterRole", "Role"))
    assert not [each for each in own if each[1:3] == ("pods", "create")]
    (policy,) = objects("ValidatingAdmissionPolicy", folder=DRY_RUN)
    spec = policy["spec"]
    assert spec["failurePolicy"] == "Fail"
    (rule,) = spec["matchConstraints"]["resourceRules"]
    assert (rule["resources"], rule["operations"]) == (["pods"], ["CREATE"])
    (condition,) = spec["matchConditions"]
    assert '"system:serviceaccount:kube-system:vpa-updater"' in condition["expression"]
    (bound,) = objects("ValidatingAdmissionPolicyBinding", folder=DRY_RUN)
    assert bound["spec"]["policyName"] == policy["metadata"]["name"]
    assert bound["spec"]["validationActions"] == ["Deny"]


def test_the_dry_run_component_sets_the_flag() -> None:
    (component,) = objects("Component", folder=DRY_RUN)
    (patch,) = component["patches"]
    assert patch["target"]["name"] == "vpa-updater"
    (operation,) = yaml.safe_load(patch["patch"])
    settings = read_flags(UpdaterSettings, [operation["value"]], program="vpa-updater", environ={})
    assert settings.replacement_dry_run


def test_the_operations_page_tells_what_external_metrics_take() -> None:
    """Our manifests don't set the flag, so they don't grant it either."""
    page = (Path(__file__).parents[2] / "docs" / "operations.md").read_text("utf-8")
    (block,) = re.findall(r"^    apiVersion: rbac[^\n]*\n(?:    [^\n]*\n)*", page, re.MULTILINE)
    role, binding = yaml.safe_load_all(textwrap.dedent(block))
    assert granted([role]) == declared(recommender.access.EXTERNAL_METRICS)
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert [subject["name"] for subject in binding["subjects"]] == ["vpa-recommender"]


def test_roles_of_one_namespace_are_about_leases_and_the_secret_alone() -> None:
    """Everything else is followed in all namespaces, so it would not be enough."""
    own = {(LEASES.group, LEASES.resource), (SECRETS.group, SECRETS.resource)}
    assert {permission[:2] for permission in granted(objects("Role"))} == own


def test_nobody_may_read_secrets_of_every_namespace() -> None:
    assert not [each for each in granted(objects("ClusterRole")) if each[1] == SECRETS.resource]


def test_what_can_be_bound_to_a_name_is() -> None:
    """Leases, webhooks and Secrets of others are none of our business."""
    sensitive = {"leases", "mutatingwebhookconfigurations", "secrets"}
    for _, resource, verb, name in granted(objects("ClusterRole", "Role")):
        assert name or verb == "create" or resource not in sensitive
