"""Which nodes a pod may run on; cases from the Kubernetes documentation of each field."""

import msgspec
import pytest

from common.api.scheduling import SchedulablePodSpec, Taint
from common.scheduling.eligibility import (
    ANYWHERE,
    NodeTraits,
    SchedulingRules,
    is_eligible,
    keys_of,
    may_come_from,
    rules_of,
)

SMALL = NodeTraits(name="small", labels={"size": "small", "disks": "2", "zone": "a"})
GPU = NodeTraits(name="gpu", taints=(Taint(key="gpu", value="yes", effect="NoSchedule"),))
PREFERRED = NodeTraits(taints=(Taint(key="gpu", effect="PreferNoSchedule"),))
TEMPLATE = NodeTraits(
    labels={"size": "large"}, open_keys=frozenset({"team"}), open_domains=("k8s.io", "gke.io")
)
POOL = NodeTraits(labels={"size": "large"}, choices={"zone": ("a", "b")}, is_open=True)


def rules(text: str) -> SchedulingRules:
    return rules_of(msgspec.json.decode(text, type=SchedulablePodSpec))


def selecting(**labels: str) -> SchedulingRules:
    return rules_of(SchedulablePodSpec(node_selector=labels))


def requiring(*requirements: tuple[str, str, list[str]]) -> SchedulingRules:
    expressions = [
        {"key": key, "operator": operator, "values": values}
        for key, operator, values in requirements
    ]
    return terms({"matchExpressions": expressions})


def term(**labels: str) -> object:
    expressions = [
        {"key": key, "operator": "In", "values": [value]} for key, value in labels.items()
    ]
    return {"matchExpressions": expressions}


def terms(*given: object) -> SchedulingRules:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": given}}
    affinity = msgspec.json.encode({"affinity": {"nodeAffinity": required}})
    return rules(affinity.decode())


def tolerating(**toleration: str) -> SchedulingRules:
    return rules(msgspec.json.encode({"tolerations": [toleration]}).decode())


SELECTED = [
    ("no rules", selecting(), SMALL, True),
    ("a label", selecting(size="small"), SMALL, True),
    ("another value", selecting(size="large"), SMALL, False),
    ("a label that the node lacks", selecting(arch="arm64"), SMALL, False),
    ("all labels are needed", selecting(size="small", arch="arm64"), SMALL, False),
]
AFFINITY = [
    ("In", requiring(("size", "In", ["small", "large"])), SMALL, True),
    ("In, with another value", requiring(("size", "In", ["large"])), SMALL, False),
    ("In, without the label", requiring(("arch", "In", ["arm64"])), SMALL, False),
    ("NotIn", requiring(("size", "NotIn", ["large"])), SMALL, True),
    ("NotIn, with the value", requiring(("size", "NotIn", ["small"])), SMALL, False),
    ("NotIn, without the label", requiring(("arch", "NotIn", ["arm64"])), SMALL, True),
    ("Exists", requiring(("size", "Exists", [])), SMALL, True),
    ("Exists, without the label", requiring(("arch", "Exists", [])), SMALL, False),
    ("DoesNotExist", requiring(("arch", "DoesNotExist", [])), SMALL, True),
    ("DoesNotExist, with the label", requiring(("size", "DoesNotExist", [])), SMALL, False),
    ("Gt", requiring(("disks", "Gt", ["1"])), SMALL, True),
    ("Gt, with the bound", requiring(("disks", "Gt", ["2"])), SMALL, False),
    ("Lt", requiring(("disks", "Lt", ["3"])), SMALL, True),
    ("Lt, with the bound", requiring(("disks", "Lt", ["2"])), SMALL, False),
    ("Gt of a word", requiring(("size", "Gt", ["1"])), SMALL, False),
    ("Gt of two bounds", requiring(("disks", "Gt", ["1", "0"])), SMALL, False),
    ("an unknown operator", requiring(("size", "Like", ["small"])), SMALL, False),
    (
        "requirements hold together",
        requiring(("size", "Exists", []), ("x", "Exists", [])),
        SMALL,
        False,
    ),
    (
        "one of two terms is enough",
        terms(
            {"matchExpressions": [{"key": "x", "operator": "Exists"}]},
            {"matchExpressions": [{"key": "size", "operator": "Exists"}]},
        ),
        SMALL,
        True,
    ),
    ("a term without requirements", terms({}), SMALL, False),
    ("no terms", terms(), SMALL, False),
    (
        "two named nodes",
        terms(
            {
                "matchFields": [
                    {"key": "metadata.name", "operator": "In", "values": ["small", "big"]}
                ]
            }
        ),
        SMALL,
        True,
    ),
    (
        "two other named nodes",
        terms(
            {
                "matchFields": [
                    {"key": "metadata.name", "operator": "In", "values": ["large", "big"]}
                ]
            }
        ),
        SMALL,
        False,
    ),
]
TAINTED = [
    ("a taint without a toleration", selecting(), GPU, False),
    ("Equal", tolerating(key="gpu", operator="Equal", value="yes", effect="NoSchedule"), GPU, True),
    ("Equal is the default", tolerating(key="gpu", value="yes"), GPU, True),
    ("another value", tolerating(key="gpu", value="no"), GPU, False),
    ("another key", tolerating(key="disk", operator="Exists"), GPU, False),
    ("another effect", tolerating(key="gpu", operator="Exists", effect="NoExecute"), GPU, False),
    ("Exists", tolerating(key="gpu", operator="Exists"), GPU, True),
    ("Exists without a key tolerates all", tolerating(operator="Exists"), GPU, True),
    ("an unknown operator", tolerating(key="gpu", operator="Gt", value="1"), GPU, False),
    ("PreferNoSchedule keeps nothing away", selecting(), PREFERRED, True),
]
POOLS = [
    ("a label of the pool", selecting(size="large"), POOL, True),
    ("another value than the pool's", selecting(size="small"), POOL, False),
    ("one of the choices", selecting(zone="b"), POOL, True),
    ("none of the choices", selecting(zone="c"), POOL, False),
    ("a label that the pool leaves open", selecting(arch="arm64"), POOL, True),
    ("NotIn leaves a choice", requiring(("zone", "NotIn", ["a"])), POOL, True),
    ("NotIn leaves no choice", requiring(("zone", "NotIn", ["a", "b"])), POOL, False),
]
TEMPLATES = [
    ("a key that is open", selecting(team="blue"), TEMPLATE, True),
    ("a key of an open domain", requiring(("k8s.io/arch", "In", ["arm64"])), TEMPLATE, True),
    ("a key of its subdomain", requiring(("cloud.gke.io/x", "In", ["1"])), TEMPLATE, True),
    ("a domain that ends alike", requiring(("not-k8s.io/arch", "Exists", [])), TEMPLATE, False),
    ("a key without a domain", selecting(**{"k8s.io": "x"}), TEMPLATE, False),
    ("a label with another value", selecting(size="small"), TEMPLATE, False),
]


@pytest.mark.parametrize(
    ("given", "node", "eligible"),
    [
        pytest.param(*case, id=f"{kind}: {name}")
        for kind, cases in {
            "selector": SELECTED,
            "affinity": AFFINITY,
            "taints": TAINTED,
            "pool": POOLS,
            "template": TEMPLATES,
        }.items()
        for name, *case in cases
    ],
)
def test_eligible_nodes(given: SchedulingRules, node: NodeTraits, *, eligible: bool) -> None:
    assert is_eligible(given, node) is eligible


def named(node: str, **expression: object) -> SchedulingRules:
    fields = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    return terms(fields | ({"matchExpressions": [expression]} if expression else {}))


def test_pods_of_a_daemonset_have_equal_rules() -> None:
    assert named("small") == named("gpu")
    assert named("small").own_node_only
    assert is_eligible(named("small"), NodeTraits(name="gpu"))


def test_pods_of_a_daemonset_keep_their_other_requirements() -> None:
    large = named("small", key="size", operator="In", values=["large"])
    assert large.own_node_only
    assert not is_eligible(large, SMALL)


def test_the_keys_that_rules_name() -> None:
    affinity = requiring(("size", "In", ["large"]), ("zone", "Exists", []))
    assert keys_of(affinity) == {"size", "zone"}
    assert keys_of(selecting(disks="2")) == {"disks"}
    assert keys_of(rules('{"tolerations": [{"key": "gpu"}]}')) == frozenset()


def test_transient_taints_say_nothing_of_a_node() -> None:
    transient = (
        Taint(key="node.kubernetes.io/not-ready", effect="NoExecute"),
        Taint(key="ToBeDeletedByClusterAutoscaler", effect="NoSchedule"),
    )
    node = NodeTraits(taints=(*transient, *GPU.taints))
    assert node.without_transient_taints() == NodeTraits(taints=GPU.taints)
    assert GPU.without_transient_taints() is GPU


SSD = requiring(("disk", "In", ["ssd"]))
TOLERANT = rules('{"tolerations": [{"key": "gpu", "operator": "Exists"}]}')
ADDED = rules(
    """{"nodeSelector": {"size": "large", "team": "web"}, "tolerations": [
        {"key": "gpu", "operator": "Exists"},
        {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
    ]}"""
)
SSD_OF_WEB = requiring(("disk", "In", ["ssd"]), ("team", "In", ["web"]))
BOTH = terms(term(disk="ssd"), term(disk="nvme"))
BOTH_OF_WEB = terms(term(disk="ssd", team="web"), term(disk="nvme", team="web"))
OF_DAEMON_SET = terms(
    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}
)

ORIGINS = [
    ("no rules at all", ANYWHERE, ANYWHERE, True),
    ("admission added a selector and a toleration", ADDED, selecting(size="large"), True),
    ("admission added a toleration", ADDED, TOLERANT, True),
    ("admission added an affinity", SSD, ANYWHERE, True),
    ("the template got a selector", ANYWHERE, selecting(size="large"), False),
    ("the template got another value", ADDED, selecting(size="small"), False),
    ("the template got a toleration", selecting(size="large"), TOLERANT, False),
    ("equal affinity", SSD, SSD, True),
    ("the template got an affinity", ANYWHERE, SSD, False),
    ("the template got another affinity", SSD, requiring(("disk", "In", ["hdd"])), False),
    ("admission added a requirement", SSD_OF_WEB, SSD, True),
    ("the template got a requirement", SSD, SSD_OF_WEB, False),
    ("admission added one to each of two terms", BOTH_OF_WEB, BOTH, True),
    ("the template got another term", SSD, BOTH, False),
    ("the template lost a term", BOTH, SSD, False),
    ("a DaemonSet without an affinity", OF_DAEMON_SET, ANYWHERE, True),
    ("a DaemonSet replaces the affinity in its pods", OF_DAEMON_SET, SSD, False),
]


@pytest.mark.parametrize(
    ("pod", "template", "may"), [pytest.param(*case, id=name) for name, *case in ORIGINS]
)
def test_pods_that_may_come_from_a_template(
    pod: SchedulingRules, template: SchedulingRules, *, may: bool
) -> None:
    assert may_come_from(pod, template) is may
