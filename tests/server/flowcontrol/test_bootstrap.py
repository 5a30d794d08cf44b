"""The initial objects of flow control."""

from api.kinds.native.native_validation import validation_error
from trimtab.server.flowcontrol.bootstrap import mandatory_objects, suggested_objects

OBJECTS = [*mandatory_objects(), *suggested_objects()]


def test_every_initial_object_is_valid() -> None:
    for obj in OBJECTS:
        assert validation_error(obj["apiVersion"], obj["kind"], obj) == "", obj["metadata"]["name"]


def test_every_schema_refers_to_a_level_and_shares_are_those_of_kubernetes() -> None:
    levels = {obj["metadata"]["name"]: obj["spec"] for obj in OBJECTS if obj["kind"] != "FlowSchema"}
    for obj in OBJECTS:
        if obj["kind"] == "FlowSchema":
            assert obj["spec"]["priorityLevelConfiguration"]["name"] in levels
    shares = {name: spec["limited"]["nominalConcurrencyShares"] for name, spec in levels.items() if "limited" in spec}
    assert shares == {
        "catch-all": 5,
        "system": 30,
        "node-high": 40,
        "leader-election": 10,
        "workload-high": 40,
        "workload-low": 100,
        "global-default": 20,
    }
