from trimtab.api.kind import find_kind
from trimtab.api.kinds.native import event

CORE = {
    "apiVersion": "v1",
    "kind": "Event",
    "metadata": {"name": "e"},
    "involvedObject": {"kind": "Pod"},
    "message": "hello",
    "count": 4,
    "source": {},
    "reportingComponent": "",
    "reportingInstance": "",
}


def test_event_survives_conversion_to_events_v1_and_back() -> None:
    converted = event.to_events_v1(CORE)
    assert (converted["regarding"], converted["note"], converted["deprecatedCount"]) == ({"kind": "Pod"}, "hello", 4)
    assert event.to_core(converted) == CORE


def test_events_v1_omits_an_empty_reporter_and_keeps_a_set_one() -> None:
    assert "reportingController" not in event.to_events_v1(CORE)
    reported = event.to_events_v1({**CORE, "reportingComponent": "kubelet"})
    assert (reported["apiVersion"], reported["reportingController"]) == ("events.k8s.io/v1", "kubelet")


def test_both_groups_serve_a_kind_called_event() -> None:
    core, newer = find_kind("v1", "Event"), find_kind("events.k8s.io/v1", "Event")
    assert core is not None
    assert newer is not None
    assert core is not newer
