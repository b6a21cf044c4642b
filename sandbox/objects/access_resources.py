"""Resources about access: the objects of RBAC, and the reviews, which are asked and not stored."""

from sandbox.objects.resources import REVIEW_VERBS, Resource

RBAC = "rbac.authorization.k8s.io"
AUTHORIZATION = "authorization.k8s.io"
AUTHENTICATION = "authentication.k8s.io"

CLUSTER_ROLES = Resource(
    group=RBAC,
    plural="clusterroles",
    kind="ClusterRole",
    namespaced=False,
)
CLUSTER_ROLE_BINDINGS = Resource(
    group=RBAC,
    plural="clusterrolebindings",
    kind="ClusterRoleBinding",
    namespaced=False,
)
ROLES = Resource(group=RBAC, plural="roles", kind="Role")
ROLE_BINDINGS = Resource(group=RBAC, plural="rolebindings", kind="RoleBinding")


def _review(group: str, kind: str, *, namespaced: bool = False) -> Resource:
    return Resource(
        group=group,
        plural=f"{kind.lower()}s",
        kind=kind,
        namespaced=namespaced,
        verbs=REVIEW_VERBS,
    )


ACCESS: tuple[Resource, ...] = (
    CLUSTER_ROLES,
    CLUSTER_ROLE_BINDINGS,
    ROLES,
    ROLE_BINDINGS,
    _review(AUTHENTICATION, "SelfSubjectReview"),
    _review(AUTHENTICATION, "TokenReview"),
    _review(AUTHORIZATION, "LocalSubjectAccessReview", namespaced=True),
    _review(AUTHORIZATION, "SelfSubjectAccessReview"),
    _review(AUTHORIZATION, "SelfSubjectRulesReview"),
    _review(AUTHORIZATION, "SubjectAccessReview"),
)
