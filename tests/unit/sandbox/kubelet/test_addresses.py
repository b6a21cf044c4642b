"""Which pod gets which address."""

import pytest

from sandbox.kubelet.addresses import Addresses

SMALL = "127.64.1.0/28"  # five pods: addresses begin with the tenth


def test_an_address_is_used_again_only_when_all_others_were() -> None:
    addresses = Addresses(SMALL)
    first, second = addresses.take(), addresses.take()
    addresses.give_back(first)
    others = [addresses.take() for _ in range(3)]
    assert first not in others
    assert addresses.take() == first
    assert second not in others


def test_a_network_that_is_used_up_is_said_to_be() -> None:
    addresses = Addresses(SMALL)
    for _ in range(5):
        addresses.take()
    with pytest.raises(RuntimeError, match=r"5 pods have all addresses of 127\.64\.1\.0/28"):
        addresses.take()
