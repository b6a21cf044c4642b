"""The action for an Event: create it, increase its count, or drop it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from common.api.core import ObjectReference
from common.kube.events import Correlator, Create, Increase, Occurrence

NOW = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)
POD = ObjectReference(api_version="v1", kind="Pod", namespace="shop", name="web-0", uid="u")
EVICTED = Occurrence(POD, "Normal", "EvictedByVPA", "Pod was evicted.", NOW)


def later(occurrence: Occurrence, **ago: float) -> Occurrence:
    return replace(occurrence, at=occurrence.at + timedelta(**ago))


def test_a_first_event_is_a_new_object() -> None:
    decision = Correlator("vpa-updater").decide(EVICTED)

    assert isinstance(decision, Create)
    name, _, suffix = decision.body["metadata"]["name"].partition(".")
    assert name == "web-0"
    assert int(suffix, 16) == int(NOW.timestamp()) * 10**9
    assert decision.body["involvedObject"]["uid"] == "u"
    assert decision.body["source"] == {"component": "vpa-updater"}
    assert decision.body["firstTimestamp"] == "2026-01-02T12:00:00Z"
    assert decision.body["count"] == 1


def test_an_equal_event_within_ten_minutes_raises_the_count() -> None:
    correlator = Correlator("vpa-updater")
    first = correlator.decide(EVICTED)
    again = correlator.decide(later(EVICTED, minutes=10))

    assert isinstance(first, Create)
    assert isinstance(again, Increase)
    assert again.name == first.body["metadata"]["name"]
    assert again.patch == {"count": 2, "lastTimestamp": "2026-01-02T12:10:00Z"}


def test_the_ten_minutes_run_from_the_last_time() -> None:
    correlator = Correlator("vpa-updater")
    correlator.decide(EVICTED)
    correlator.decide(later(EVICTED, minutes=9))
    assert isinstance(correlator.decide(later(EVICTED, minutes=18)), Increase)
    assert isinstance(correlator.decide(later(EVICTED, minutes=29)), Create)


def test_another_text_is_another_event() -> None:
    correlator = Correlator("vpa-updater")
    correlator.decide(EVICTED)
    assert isinstance(correlator.decide(replace(EVICTED, message="Other.")), Create)


def test_two_events_of_the_same_time_have_different_names() -> None:
    correlator = Correlator("vpa-updater")
    names = set()
    for message in ("One.", "Two."):
        decision = correlator.decide(replace(EVICTED, message=message))
        assert isinstance(decision, Create)
        names.add(decision.body["metadata"]["name"])
    assert len(names) == 2


def test_one_object_has_a_burst_of_25_and_then_one_in_five_minutes() -> None:
    correlator = Correlator("vpa-updater")
    for _ in range(25):
        assert correlator.decide(EVICTED) is not None
    assert correlator.decide(later(EVICTED, seconds=299)) is None
    assert correlator.decide(later(EVICTED, seconds=301)) is not None
    assert correlator.decide(later(EVICTED, seconds=302)) is None


def test_objects_do_not_share_their_burst() -> None:
    correlator = Correlator("vpa-updater")
    for _ in range(26):
        correlator.decide(EVICTED)
    other = replace(EVICTED, about=ObjectReference(kind="Pod", namespace="shop", name="web-1"))
    assert isinstance(correlator.decide(other), Create)


def test_from_the_tenth_text_on_events_of_one_reason_are_combined() -> None:
    correlator = Correlator("vpa-updater")

    def decision_for(number: int, reason: str = "EvictedByVPA") -> Create | Increase | None:
        return correlator.decide(replace(EVICTED, message=f"Evicted {number}.", reason=reason))

    for number in range(9):
        assert isinstance(decision_for(number), Create)
    combined = decision_for(9)
    assert isinstance(combined, Create)
    assert combined.body["message"] == "(combined from similar events): Evicted 9."
    another = decision_for(10)
    assert isinstance(another, Increase)
    assert another.name == combined.body["metadata"]["name"]
    assert another.patch["count"] == 2
    assert another.patch["message"] == "(combined from similar events): Evicted 10."
    known = decision_for(3)
    assert isinstance(known, Increase)
    assert "message" not in known.patch
    other_reason = decision_for(11, reason="Other")
    assert isinstance(other_reason, Create)
    assert other_reason.body["message"] == "Evicted 11."


def test_after_ten_minutes_without_events_texts_are_separate_events_again() -> None:
    correlator = Correlator("vpa-updater")
    for number in range(10):
        correlator.decide(replace(EVICTED, message=f"Evicted {number}."))
    decision = correlator.decide(later(replace(EVICTED, message="Evicted 99."), minutes=11))
    assert isinstance(decision, Create)
    assert decision.body["message"] == "Evicted 99."


def test_a_forgotten_combined_event_is_created_again() -> None:
    correlator = Correlator("vpa-updater")
    texts = [replace(EVICTED, message=f"Evicted {number}.") for number in range(11)]
    for each in texts:
        correlator.decide(each)
    correlator.forget(texts[10])
    assert isinstance(correlator.decide(texts[10]), Create)


def test_a_forgotten_event_is_created_again() -> None:
    correlator = Correlator("vpa-updater")
    correlator.decide(EVICTED)
    correlator.forget(EVICTED)
    assert isinstance(correlator.decide(EVICTED), Create)


def test_events_of_cluster_scoped_objects_are_in_namespace_default() -> None:
    node = replace(EVICTED, about=ObjectReference(kind="Node", name="n1"))
    decision = Correlator("x").decide(node)
    assert isinstance(decision, Create)
    assert decision.namespace == decision.body["metadata"]["namespace"] == "default"
