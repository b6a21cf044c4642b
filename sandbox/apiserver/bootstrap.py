"""What a new cluster already holds: the system's namespaces."""

from random import Random

from common.runtime.clock import Clock
from sandbox.objects import defaults
from sandbox.objects.metadata import stamp_new
from sandbox.objects.resources import NAMESPACES
from sandbox.objects.store import Store
from sandbox.objects.strategies import prepare_create


def fill_new_cluster(store: Store, clock: Clock, rng: Random) -> None:
    """Create the system's namespaces."""
    for name in ("default", "kube-node-lease", "kube-public", "kube-system"):
        obj = {"metadata": {"name": name}}
        defaults.fill(NAMESPACES, obj)
        prepare_create(NAMESPACES, obj)
        stamp_new(obj, NAMESPACES, clock.now(), rng)
        store.create(NAMESPACES, obj)
