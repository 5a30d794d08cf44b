import pytest

from plugins.clusters import check_filter, cluster, placement_request
from trimtab.plugins import load

load()


@pytest.mark.parametrize(
    ("field", "missing", "present"),
    [
        ("provider", {}, {"provider": "p"}),
        ("region", {}, {"region": "r"}),
        ("zone", {"zone": "z"}, {"zones": ["z"]}),
    ],
)
def test_a_cluster_without_the_spread_property_is_rejected(
    field: str, missing: dict[str, str], present: dict[str, object]
) -> None:
    spread = placement_request(
        placement={"spreadConstraints": [{"spreadByField": field, "minGroups": 1, "maxGroups": 1}]}
    )
    reason = check_filter("SpreadConstraint", spread, cluster(**missing))
    assert reason is not None
    assert reason.message == f"cluster(s) did not have {'zones' if field == 'zone' else field} property"
    assert check_filter("SpreadConstraint", spread, cluster(**present)) is None


def test_spreading_by_cluster_needs_no_property() -> None:
    spread = placement_request(
        placement={"spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]}
    )
    assert check_filter("SpreadConstraint", spread, cluster()) is None
