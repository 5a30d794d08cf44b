"""Events about evictions."""

from datetime import UTC, datetime, timedelta

from trimtab.server.subresources.eviction_events import EventSubject, build_event, subject_of

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
POD = subject_of({"metadata": {"name": "web-0", "namespace": "shop", "uid": "u"}}, "v1", "Pod")


def test_event_is_stored_in_the_namespace_of_its_object() -> None:
    key, obj = build_event(POD, "Evicted", "evicted", NOW)
    assert key == f"/registry/core/events/shop/{obj['metadata']['name']}"
    assert obj["metadata"]["name"].startswith("web-0.")
    assert obj["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": "shop",
        "name": "web-0",
        "uid": "u",
    }
    assert obj["lastTimestamp"] == "2030-01-01T12:00:00Z"
    assert "related" not in obj


def test_event_of_a_cluster_scoped_object_is_stored_in_default() -> None:
    node = EventSubject("v1", "Node", "", "a", "n")
    key, obj = build_event(node, "AvoidListFull", "full", NOW, kind="Warning", related=POD)
    assert key.startswith("/registry/core/events/default/a.")
    assert "namespace" not in obj["involvedObject"]
    assert (obj["type"], obj["related"]["name"]) == ("Warning", "web-0")


def test_same_event_has_the_same_name_and_another_has_another() -> None:
    names = [
        build_event(POD, reason, message, NOW + timedelta(seconds=seconds))[0]
        for reason, message, seconds in (("A", "a", 0), ("A", "a", 0), ("B", "a", 0), ("A", "b", 0), ("A", "a", 1))
    ]
    assert names[0] == names[1]
    assert len(set(names)) == 4


def test_long_message_is_cut() -> None:
    assert len(build_event(POD, "Evicted", "x" * 5000, NOW)[1]["message"]) == 1024
