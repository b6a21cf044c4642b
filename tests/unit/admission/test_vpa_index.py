"""The index of VPAs by target, after all kinds of changes."""

from admission.vpa_index import VpaIndex
from builders import vpa
from common.kube.cache import Change

WEB = ("default", "Deployment", "web")


def names(index: VpaIndex, key: tuple[str, str, str] = WEB) -> set[str]:
    return {found.metadata.name for found in index.targeting(key)}


def test_created_and_deleted_vpas() -> None:
    index = VpaIndex()
    assert not index.has_any("default")
    index.apply(Change(None, vpa("a")))
    index.apply(Change(None, vpa("b")))
    assert names(index) == {"a", "b"}
    index.apply(Change(vpa("a"), None))
    assert names(index) == {"b"}
    index.apply(Change(vpa("b"), None))
    assert names(index) == set()
    assert not index.has_any("default")


def test_a_vpa_with_a_new_target_is_moved() -> None:
    index = VpaIndex()
    index.apply(Change(None, vpa("a")))
    index.apply(Change(vpa("a"), vpa("a", target=("StatefulSet", "db"))))
    assert names(index) == set()
    assert names(index, ("default", "StatefulSet", "db")) == {"a"}


def test_the_index_has_the_latest_version() -> None:
    index = VpaIndex()
    index.apply(Change(None, vpa("a", mode="Off")))
    index.apply(Change(vpa("a", mode="Off"), vpa("a", mode="Initial")))
    (found,) = index.targeting(WEB)
    assert found.spec.update_policy is not None
    assert found.spec.update_policy.update_mode == "Initial"


def test_a_vpa_without_target_is_not_in_the_index() -> None:
    index = VpaIndex()
    index.apply(Change(None, vpa("a", target=None)))
    assert not index.has_any("default")
    index.apply(Change(vpa("a", target=None), vpa("a")))
    assert names(index) == {"a"}
    index.apply(Change(vpa("a"), vpa("a", target=None)))
    assert not index.has_any("default")


def test_names_are_per_namespace() -> None:
    index = VpaIndex()
    index.apply(Change(None, vpa("a")))
    index.apply(Change(None, vpa("a", namespace="shop")))
    index.apply(Change(vpa("a"), None))
    assert index.has_any("shop")
    assert names(index, ("shop", "Deployment", "web")) == {"a"}
