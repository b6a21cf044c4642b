"""Amounts and changes as ``kubectl vpa`` prints them for people."""

import pytest

from kubectl_vpa.output.amounts import change, percent, plain_number, share, short
from kubectl_vpa.results.status import ResourceStatus


@pytest.mark.parametrize(
    ("resource", "quantity", "want"),
    [
        ("cpu", "49m", "49m"),
        ("cpu", "999m", "999m"),
        ("cpu", "1", "1"),
        ("cpu", "1200m", "1.2"),
        ("cpu", "12340m", "12.3"),
        ("cpu", "123456m", "123"),
        ("memory", "250Mi", "250Mi"),
        ("memory", "511772986", "488Mi"),
        ("memory", "999Mi", "999Mi"),
        ("memory", "1000Mi", "0.98Gi"),
        ("memory", "1Gi", "1Gi"),
        ("memory", "1999Mi", "1.95Gi"),
        ("memory", "0", "0"),
    ],
)
def test_a_quantity_has_three_digits(resource: str, quantity: str, want: str) -> None:
    assert short(resource, quantity) == want


@pytest.mark.parametrize(
    ("status", "want"),
    [
        (ResourceStatus(request="500m", target="49m", drift=-0.9), "500m → 49m"),
        (ResourceStatus(request="49m", target="49m", drift=0.0), "49m"),
        (ResourceStatus(target="49m"), "none → 49m"),
        (ResourceStatus(request="49m"), "49m → -"),
        (ResourceStatus(), "-"),
    ],
)
def test_a_change_names_both_amounts(status: ResourceStatus, want: str) -> None:
    assert change("cpu", status) == want


@pytest.mark.parametrize(
    ("drift", "want"),
    [
        (None, "-"),
        (0.0, "0%"),
        (0.004, "0%"),
        (-0.9, "-90%"),
        (0.34, "+34%"),
        (9.99, "+999%"),
        (9.995, "x11"),
        (11.0, "x12"),
    ],
)
def test_a_drift_is_a_percentage_or_a_factor(drift: float | None, want: str) -> None:
    assert percent(drift) == want


@pytest.mark.parametrize(
    ("used", "want"),
    [(None, "-"), (0.0, "0%"), (0.124, "12%"), (1.0, "100%"), (9.99, "999%"), (9.995, "x10")],
)
def test_a_part_of_a_request_is_a_percentage_or_a_factor(used: float | None, want: str) -> None:
    assert share(used) == want


@pytest.mark.parametrize(
    ("value", "want"),
    [
        (12_300.0, "12300"),
        (80.54, "80.5"),
        (1.0, "1"),
        (0.9994, "0.999"),
        (0.005623, "0.00562"),
        (0.000081, "0.000081"),
        (0.0, "0"),
    ],
)
def test_a_number_has_three_digits_and_no_exponent(value: float, want: str) -> None:
    assert plain_number(value) == want
