"""The shape of roles and bindings."""

import msgspec

from sandbox.objects.shapes.base import LabelSelector, Shape, Text, Texts


class PolicyRule(Shape):
    """``PolicyRule``."""

    verbs: Texts = None
    api_groups: Texts = None
    resources: Texts = None
    resource_names: Texts = None
    non_resource_urls: Texts = msgspec.field(default=None, name="nonResourceURLs")


class AggregationRule(Shape):
    """``AggregationRule``."""

    cluster_role_selectors: list[LabelSelector] | None = None


class Role(Shape):
    """``Role`` and ``ClusterRole``."""

    rules: list[PolicyRule] | None = None
    aggregation_rule: AggregationRule | None = None


class RoleReference(Shape):
    """``RoleRef``."""

    api_group: Text = None
    kind: Text = None
    name: Text = None


class Subject(Shape):
    """``Subject``."""

    kind: Text = None
    api_group: Text = None
    name: Text = None
    namespace: Text = None


class Binding(Shape):
    """``RoleBinding`` and ``ClusterRoleBinding``."""

    role_ref: RoleReference | None = None
    subjects: list[Subject] | None = None
