"""Which pod gets which address."""

import ipaddress

import pytest

from sandbox.kubelet.addresses import Addresses, loopback_of

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


@pytest.mark.parametrize(
    ("process", "network"),
    [
        pytest.param(0, "127.64.0.0/24", id="the first part"),
        pytest.param(1, "127.64.1.0/24", id="the next process"),
        pytest.param(16383, "127.127.255.0/24", id="the last part"),
        pytest.param(16384, "127.64.0.0/24", id="round again"),
    ],
)
def test_processes_have_parts_of_their_own(process: int, network: str) -> None:
    assert loopback_of(process) == network
    assert ipaddress.ip_network(network).is_loopback


def test_two_clusters_of_a_process_share_its_part_and_never_an_address() -> None:
    taken: set[str] = set()
    one, other = Addresses(SMALL, taken), Addresses(SMALL, taken)
    mine, yours = {one.take(), one.take()}, {other.take(), other.take(), other.take()}
    assert not mine & yours
    with pytest.raises(RuntimeError, match="5 pods"):
        one.take()
    one.give_back_all()
    assert {other.take(), other.take()} == mine
