"""Addresses of pods."""

import pytest

from sandbox.kubelet.addresses import Addresses

SMALL = "127.64.1.0/28"  # five pods: the first address is the tenth


def test_an_address_is_reused_only_after_all_others() -> None:
    addresses = Addresses(SMALL)
    first, second = addresses.take(), addresses.take()
    addresses.release(first)
    others = [addresses.take() for _ in range(3)]
    assert first not in others
    assert addresses.take() == first
    assert second not in others


def test_a_full_network_raises_an_error() -> None:
    addresses = Addresses(SMALL)
    for _ in range(5):
        addresses.take()
    with pytest.raises(RuntimeError, match=r"5 pods have all addresses of 127\.64\.1\.0/28"):
        addresses.take()
