import pytest

from plugins.clusters import binding, placement_request
from trimtab.api.kinds.policy import Placement
from trimtab.decide.request import parse_placement, resource_request_of


def fnv1a_is_odd(text: str) -> bool:
    value = 0x811C9DC5
    for byte in text.encode():
        value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return bool(value & 1)


@pytest.mark.parametrize("uid", ["a", "b", "4c6f", "0b9f3c1e-5a62-4c1c-9a0e-6f0d2f7b8c11"])
def test_ties_follow_the_last_bit_of_the_fnv_hash_of_the_uid(uid: str) -> None:
    resource = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": uid}
    assert placement_request(resource=resource).last_wins_ties is fnv1a_is_odd(uid)


def test_resource_requests_are_whole_numbers_sorted_and_without_zeros() -> None:
    assert resource_request_of({"memory": "1Ki", "cpu": "250m", "nvidia.com/gpu": 0}) == (
        ("cpu", 250),
        ("memory", 1024),
    )


def test_equal_placements_share_one_parsed_placement() -> None:
    assert parse_placement(Placement()) is parse_placement(Placement())


def test_a_request_is_fresh_only_when_triggered_after_the_last_decision() -> None:
    def fresh(triggered: str, scheduled: str) -> bool:
        spec = {"rescheduleTriggeredAt": triggered, "status": {"lastScheduledTime": scheduled}}
        return placement_request(**spec).fresh

    assert fresh("2030-01-01T00:00:02Z", "2030-01-01T00:00:01Z")
    assert not fresh("2030-01-01T00:00:01Z", "2030-01-01T00:00:01Z")
    assert not placement_request(rescheduleTriggeredAt="2030-01-01T00:00:01Z").fresh


def test_placed_clusters_keep_the_order_of_the_binding() -> None:
    clusters = [{"name": "m2", "replicas": 1}, {"name": "m1", "replicas": 2}]
    assert placement_request(clusters=clusters).placed_clusters == ("m2", "m1")
    assert [target.name for target in binding(clusters=clusters).spec.clusters] == ["m2", "m1"]
