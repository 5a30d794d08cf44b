from pathlib import Path

import pytest

from trimtab.errors import InputError
from trimtab.simulate.fleet import default_fleet, flows_fleet, parse_fleet, read_fleet, uniform_fleet

TEXT = """
pace: slow
members:
- name: a
  nodes: 2
  cpu: 16
  memory: 64Gi
  region: eu
  zones: [eu-1, eu-2]
  labels: {tier: gold}
  pace: {start: 5, ready: 1}
- name: b
  region: us
  pools:
  - {name: big, nodes: 1, cpu: 32}
  - {name: gpu, nodes: 2, cpu: 8, zone: us-9, taints: [{key: gpu}], resources: {nvidia.com/gpu: 4}}
"""


def test_fleet_is_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text(TEXT)
    plan = read_fleet(path)
    first, second = plan.members
    assert [(node.name, node.zone) for node in first.node_plans()] == [("a-node-1", "eu-1"), ("a-node-2", "eu-2")]
    assert next(first.node_plans()).pool.capacity == {"cpu": "16", "memory": "64Gi", "pods": "110"}
    assert plan.pace_of(first).start == 5
    assert plan.pace_of(second).start == 20
    assert [node.name for node in second.node_plans()] == ["b-big-node-1", "b-gpu-node-1", "b-gpu-node-2"]
    gpu = list(second.node_plans())[-1]
    assert (gpu.zone, gpu.pool.capacity["nvidia.com/gpu"], gpu.pool.taints[0].effect) == ("us-9", "4", "NoSchedule")


@pytest.mark.parametrize(
    ("description", "reason"),
    [
        ({}, "no members"),
        ({"members": [{"name": "a"}, {"name": "a"}]}, "same name"),
        ({"members": [{"name": "../../evil"}]}, "cannot be the name of a member"),
        ({"members": [{"name": "a", "nodez": 3}]}, r"members\[0\].nodez: there is no such field"),
        ({"members": [{"name": "a", "pace": "warp"}]}, "the pace of a is 'warp'"),
        ({"members": [{"name": "a", "cpu": "lots"}]}, "'lots' is not a quantity"),
        (
            {"members": [{"name": "a"}, {"name": "b", "nodes": -1}]},
            r"members\[1\]: nodes of b is -1; it must be 0 to 10000",
        ),
        ({"members": [{"name": "a", "nodes": 1, "pools": [{"nodes": 1}]}]}, "both nodes and pools"),
        ({"members": [{"name": "a"}], "emulatedVersion": "1.5"}, "emulatedVersion is '1.5'; it must be one of 1.32"),
        ({"members": [{"name": "a"}], "scheduler": "dice"}, "one of pods, first-fit, none"),
        ({"members": [{"name": "a"}], "disableAdmissionPlugins": ["Priority"]}, "'Priority' cannot be disabled"),
    ],
)
def test_invalid_fleet_is_rejected_with_the_reason(description: object, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        parse_fleet(description)


def test_the_default_fleet_has_three_members_in_two_regions() -> None:
    members = default_fleet().members
    assert len(members) == 3
    assert len({member.region for member in members}) == 2


def test_flows_fleet_is_as_recorded() -> None:
    sizes = [
        (m.name, len(list(m.node_plans())), m.region, m.zones, m.provider, m.labels) for m in flows_fleet().members
    ]
    assert sizes == [
        ("member1", 4, "r1", ("z1",), "p1", {"tier": "a"}),
        ("member2", 2, "r1", ("z2",), "p1", {"tier": "b"}),
        ("member3", 1, "r2", ("z3",), "p2", {"tier": "b"}),
    ]
    node = next(flows_fleet().members[0].node_plans())
    assert node.pool.capacity == {"cpu": "8", "memory": "32Gi", "pods": "110"}


def test_large_fleets_have_longer_heartbeat_intervals() -> None:
    assert uniform_fleet(3, 3).heartbeat_seconds == 10
    assert uniform_fleet(100, 50).heartbeat_seconds == 100
