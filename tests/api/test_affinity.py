from typing import Any

import msgspec
import pytest

from plugins.clusters import cluster
from trimtab.api.affinity import affinity_matcher
from trimtab.api.kinds.policy import ClusterAffinity

M1 = cluster("m1", labels={"env": "prod"}, provider="p", zones=["a", "b"])


def rule(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": values}]}


@pytest.mark.parametrize(
    ("affinity", "expected"),
    [
        ({}, True),
        ({"clusterNames": ["m1", "m2"]}, True),
        ({"clusterNames": ["m2"]}, False),
        ({"clusterNames": ["m1"], "exclude": ["m1"]}, False),
        ({"labelSelector": {"matchLabels": {"env": "prod"}}}, True),
        ({"labelSelector": {"matchLabels": {"env": "dev"}}}, False),
        ({"labelSelector": rule("team", "NotIn", "x")}, True),
        ({"labelSelector": rule("env", "In")}, False),
        ({"labelSelector": rule("env", "Sometimes", "x")}, False),
        ({"fieldSelector": rule("provider", "In", "p")}, True),
        ({"fieldSelector": rule("region", "In", "r")}, False),
        ({"fieldSelector": rule("region", "NotIn", "r")}, True),
        ({"fieldSelector": rule("zone", "In", "b")}, True),
        ({"fieldSelector": rule("zone", "NotIn", "b")}, False),
        ({"fieldSelector": rule("zone", "NotIn", "c")}, True),
        ({"fieldSelector": rule("zone", "Exists")}, True),
        ({"fieldSelector": rule("provider", "In", "p"), "clusterNames": ["m2"]}, False),
    ],
)
def test_cluster_matches_when_all_parts_match(affinity: dict[str, Any], expected: bool) -> None:
    assert affinity_matcher(msgspec.convert(affinity, ClusterAffinity))(M1) is expected


def test_absent_affinity_matches_every_cluster() -> None:
    assert affinity_matcher(None)(M1)
