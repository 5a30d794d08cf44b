from api.kinds.native.native_validation import validation_error, with_change
from trimtab.api.value import Raw

EVENT: Raw = {"metadata": {"name": "e", "namespace": "n"}, "involvedObject": {"namespace": "n", "name": "x"}}
EVENT_V1: Raw = {
    "metadata": {"name": "e", "namespace": "n"},
    "regarding": {"namespace": "n"},
    "eventTime": "2026-01-01T00:00:00.000000Z",
    "type": "Normal",
    "reason": "Test",
    "action": "Testing",
    "reportingController": "example.io/test",
    "reportingInstance": "test-0",
}


def test_valid_core_event_is_accepted_on_create_and_update() -> None:
    assert validation_error("v1", "Event", EVENT) == ""
    assert validation_error("v1", "Event", EVENT, EVENT) == ""


def test_valid_events_v1_event_is_accepted_on_create_and_update() -> None:
    assert validation_error("events.k8s.io/v1", "Event", EVENT_V1) == ""
    assert validation_error("events.k8s.io/v1", "Event", EVENT_V1, EVENT_V1) == ""


def test_event_must_be_in_the_namespace_of_its_object() -> None:
    assert validation_error("v1", "Event", with_change(EVENT, "involvedObject", "namespace", to="other")) == (
        'involvedObject.namespace: Invalid value: "other": does not match event.namespace'
    )


def test_new_event_of_events_v1_needs_event_time_and_type() -> None:
    event = {"metadata": {"name": "e", "namespace": "n"}, "regarding": {"namespace": "n"}, "reason": "Test"}
    assert validation_error("events.k8s.io/v1", "Event", event) == (
        '[eventTime: Required value, type: Invalid value: "": has invalid value: ]'
    )


def test_event_with_event_time_needs_reporter_and_action() -> None:
    event = {**EVENT, "eventTime": "2026-01-01T00:00:00.000000Z", "reason": "Test"}
    error = validation_error("v1", "Event", event)
    for field in ("reportingComponent", "reportingInstance", "action"):
        assert f"{field}: Required value" in error


def test_texts_of_an_event_with_event_time_are_limited() -> None:
    assert validation_error("events.k8s.io/v1", "Event", {**EVENT_V1, "reason": "r" * 129}) == (
        'reason: Invalid value: "": can have at most 128 characters'
    )
    assert validation_error("events.k8s.io/v1", "Event", {**EVENT_V1, "note": "n" * 1025}) == (
        'message: Invalid value: "": can have at most 1024 characters'
    )


def test_new_event_of_events_v1_must_not_use_deprecated_fields() -> None:
    assert validation_error("events.k8s.io/v1", "Event", {**EVENT_V1, "deprecatedCount": 2}) == (
        'count: Invalid value: "": needs to be unset'
    )
    assert validation_error("events.k8s.io/v1", "Event", {**EVENT_V1, "deprecatedCount": 2}, EVENT_V1) == ""
