"""The roles grant exactly the permissions that each component declares."""

from collections.abc import Iterable

import pytest
import yaml

import admission.access
import recommender.access
import updater.access
from common.flags import read_flags
from common.kube.endpoints import LEASES, SECRETS, VPAS, Access, Permission
from common.kube.node_autoscalers import CONFIG_MAPS, STATUS_NAME, STATUS_NAMESPACE
from common.read_api.reviews import API_SERVER_NAMESPACE, ENDPOINT_SLICES
from recommender.settings import RecommenderSettings
from role_rules import DRY_RUN, NAMESPACE_VPAS, bound_roles, granted, objects
from updater.settings import UpdaterSettings


def declared(access: Iterable[Access]) -> set[Permission]:
    return {permission for one in access for permission in one.permissions()}


@pytest.mark.parametrize(
    ("account", "access"),
    [
        ("vpa-recommender", recommender.access.ACCESS),
        ("vpa-updater", updater.access.ACCESS),
        ("vpa-admission-controller", admission.access.ACCESS),
    ],
)
def test_an_account_may_do_what_its_component_calls(
    account: str, access: tuple[Access, ...]
) -> None:
    may, does = granted(bound_roles(account)), declared(access)
    assert (sorted(does - may), sorted(may - does)) == ([], []), "(missing, excess)"


def test_the_dry_run_component_grants_what_the_flag_needs() -> None:
    may = granted(bound_roles("vpa-updater", folder=DRY_RUN))
    assert may == declared(updater.access.REPLACEMENT_DRY_RUN)
    (binding,) = objects("ClusterRoleBinding", folder=DRY_RUN)
    assert [subject["name"] for subject in binding["subjects"]] == ["vpa-updater"]


def test_only_the_dry_run_component_grants_the_creation_of_pods_and_only_in_dry_runs() -> None:
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


def test_the_namespace_vpas_component_grants_what_the_flag_needs_and_sets_it() -> None:
    may = granted(bound_roles("vpa-recommender", folder=NAMESPACE_VPAS))
    assert may == declared(recommender.access.NAMESPACE_VPAS)
    (component,) = objects("Component", folder=NAMESPACE_VPAS)
    (patch,) = component["patches"]
    assert patch["target"]["name"] == "vpa-recommender"
    (operation,) = yaml.safe_load(patch["patch"])
    program, flag = "vpa-recommender", operation["value"]
    assert read_flags(RecommenderSettings, [flag], program=program, environ={}).namespace_vpas


def test_only_the_namespace_vpas_component_lets_an_account_create_or_delete_vpas() -> None:
    own = granted(objects("ClusterRole", "Role"))
    verbs = {verb for _, resource, verb, _ in own if resource == VPAS.resource}
    assert verbs == {"get", "list", "watch"}


def test_namespaced_roles_grant_only_leases_the_secret_and_two_reads_elsewhere() -> None:
    """All other resources are watched in all namespaces."""
    roles = {role["metadata"]["name"]: role for role in objects("Role")}
    addresses = roles.pop("system:vpa-api-server-addresses")
    assert addresses["metadata"]["namespace"] == API_SERVER_NAMESPACE
    assert granted([addresses]) == declared([ENDPOINT_SLICES.access("list")])
    status = roles.pop("system:vpa-autoscaler-status")
    assert status["metadata"]["namespace"] == STATUS_NAMESPACE
    assert granted([status]) == declared([CONFIG_MAPS.access("get", names=(STATUS_NAME,))])
    own = {(LEASES.group, LEASES.resource), (SECRETS.group, SECRETS.resource)}
    assert {permission[:2] for permission in granted(roles.values())} == own


def test_endpoint_slices_are_readable_in_one_namespace_alone() -> None:
    everywhere = granted(objects("ClusterRole"))
    assert not [each for each in everywhere if each[1] == ENDPOINT_SLICES.resource]


def test_no_role_grants_secrets_of_every_namespace() -> None:
    assert not [each for each in granted(objects("ClusterRole")) if each[1] == SECRETS.resource]


def test_rules_are_bound_to_names_where_possible() -> None:
    """Our components need no Leases, webhooks and Secrets of others."""
    sensitive = {"leases", "mutatingwebhookconfigurations", "secrets"}
    for _, resource, verb, name in granted(objects("ClusterRole", "Role")):
        assert name or verb == "create" or resource not in sensitive
