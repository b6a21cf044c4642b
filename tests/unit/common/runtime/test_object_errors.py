"""Unexpected errors in the processing of one object are logged, counted and contained."""

import asyncio
import logging

import pytest
from prometheus_client import CollectorRegistry

from common.runtime.object_errors import ObjectErrors


class Counted:
    """The errors of a component, and their metric."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.errors = ObjectErrors("updater", self.registry)

    def count(self, stage: str) -> float | None:
        name = "vpa_updater_object_errors_total"
        return self.registry.get_sample_value(name, {"stage": stage})


def fail_once(counted: Counted, name: str = "web", error: Exception | None = None) -> None:
    with counted.errors.around("resolve", "VPA", "shop", name):
        raise error or ZeroDivisionError("by zero")


def test_the_next_object_is_processed() -> None:
    counted, served = Counted(), []
    for name in ("a", "b", "c"):
        with counted.errors.around("resolve", "VPA", "shop", name):
            if name == "b":
                raise KeyError(name)
            served.append(name)
    assert served == ["a", "c"]
    assert counted.count("resolve") == 1


def test_each_error_is_counted_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    counted = Counted()
    for _ in range(3):
        fail_once(counted)
    fail_once(counted, "other")
    fail_once(counted, error=KeyError("another error"))
    assert counted.count("resolve") == 5
    logged = [(record.levelno, record.__dict__["object"]) for record in caplog.records]
    assert logged == [(logging.ERROR, f"VPA shop/{name}") for name in ("web", "other", "web")]
    messages = {record.getMessage() for record in caplog.records}
    assert messages == {"object skipped after an unexpected error"}
    assert all(record.exc_info for record in caplog.records)


def test_the_number_of_remembered_objects_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    counted = Counted()
    for number in range(1001):
        fail_once(counted, f"web-{number}")
    caplog.clear()
    fail_once(counted, "web-1000")
    assert not caplog.records
    fail_once(counted, "web-0")  # the oldest is forgotten
    assert len(caplog.records) == 1


@pytest.mark.parametrize("error", [asyncio.CancelledError, KeyboardInterrupt, SystemExit])
def test_errors_that_end_a_task_or_the_process_are_raised(error: type[BaseException]) -> None:
    counted = Counted()
    with pytest.raises(error), counted.errors.around("resolve", "VPA", "shop", "web"):
        raise error
    assert counted.count("resolve") is None


def test_objects_without_a_namespace(caplog: pytest.LogCaptureFixture) -> None:
    with Counted().errors.around("watch", "Node", "", "n1"):
        raise ValueError
    assert caplog.records[0].__dict__["object"] == "Node n1"
