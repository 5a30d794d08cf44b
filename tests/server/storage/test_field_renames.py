from typing import Any

import orjson

from trimtab.server.storage.field_renames import RENAMED, convert_to_format_2, rename_fields

BINDINGS = "/registry/work.karmada.io/resourcebindings/"
OLD = {
    "challenger": {"clusters": [{"name": "m2"}]},
    "followed": ["m1"],
    "rollout": {"fingerprint": "f", "since": "s"},
    "previousPlacement": {"undone": 2},
    "decision": {
        "rule": "by weight",
        "considered": 3,
        "feasible": 1,
        "refused": [{"rule": "TaintToleration", "count": 2}],
    },
}
NEW = {
    "betterPlacement": {"clusters": [{"name": "m2"}]},
    "placementRefClusters": ["m1"],
    "rollout": {"templateHash": "f", "since": "s"},
    "previousPlacement": {"revertedFailbacks": 2},
    "decision": {
        "divisionStrategy": "by weight",
        "totalClusters": 3,
        "feasibleClusters": 1,
        "rejected": [{"filter": "TaintToleration", "count": 2}],
    },
}


def binding(status: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": "web", "namespace": "default"}, "spec": {"rule": "kept"}, "status": status}


def test_old_names_of_a_binding_are_renamed_and_other_fields_are_kept() -> None:
    assert rename_fields(binding(OLD), RENAMED[BINDINGS]) == binding(NEW)


def test_a_new_name_that_is_there_already_wins() -> None:
    both = binding({"followed": ["old"], "placementRefClusters": ["new"]})
    assert rename_fields(both, RENAMED[BINDINGS])["status"] == {"placementRefClusters": ["new"]}


def test_condition_types_reasons_and_drain_marks_are_renamed() -> None:
    def converted(key: str, obj: dict[str, Any]) -> Any:
        return orjson.loads(convert_to_format_2(key, orjson.dumps(obj)))

    def budget(*conditions: tuple[str, str]) -> dict[str, Any]:
        listed = [{"type": type_, "status": "True", "reason": reason} for type_, reason in conditions]
        return {"metadata": {"name": "web"}, "spec": {"reasons": ["Counted"]}, "status": {"conditions": listed}}

    def cluster(mark: str) -> dict[str, Any]:
        return {"metadata": {"name": "m1", "annotations": {"trimtab.dev/drain": mark}}}

    budgets, clusters = (
        "/registry/trimtab.dev/disruptionbudgets/default/web",
        "/registry/cluster.karmada.io/clusters/m1",
    )
    old = budget(("Ready", "Counted"), ("Allowing", "Allowing"))
    new = budget(("Ready", "BudgetEvaluated"), ("DisruptionsAllowed", "BudgetAvailable"))
    assert converted(budgets, old) == new
    assert converted(clusters, cluster("T closed-before")) == cluster("T cordoned-before")


def test_annotations_are_renamed_on_objects_of_any_kind() -> None:
    annotations = {
        "trimtab.dev/surged": "1",
        "trimtab.dev/surge": "Allowed",
        "example.com/surged": "trimtab.dev/surged",
    }
    obj = {"metadata": {"name": "web", "namespace": "default", "annotations": annotations}}
    converted = convert_to_format_2("/registry/apps/deployments/default/web", orjson.dumps(obj))
    assert orjson.loads(converted)["metadata"]["annotations"] == {
        "trimtab.dev/drain-surge-replicas": "1",
        "trimtab.dev/drain-surge": "Allowed",
        "example.com/surged": "trimtab.dev/surged",
    }


def test_fields_are_renamed_only_under_the_keys_of_their_kind() -> None:
    old = orjson.dumps(binding(OLD))
    assert orjson.loads(convert_to_format_2(f"{BINDINGS}default/web", old)) == binding(NEW)
    assert convert_to_format_2("/registry/example.com/things/default/web", old) == old


def test_object_with_new_names_keeps_its_bytes() -> None:
    new = orjson.dumps(binding(NEW))
    assert convert_to_format_2(f"{BINDINGS}default/web", new) is new
