import asyncio
from typing import Any

import orjson

from trimtab.server.apiserver import ApiServer
from trimtab.server.storage.field_renames import RENAMED, rename_fields
from trimtab.store.store import Store

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


def test_server_converts_stored_objects_before_it_serves() -> None:
    async def start() -> dict[str, Any]:
        store = Store()
        await store.create(f"{BINDINGS}default/web", orjson.dumps(binding(OLD)))
        server = ApiServer(store)
        await server.start()
        entry = store.get(f"{BINDINGS}default/web")
        await server.stop()
        assert entry is not None
        return orjson.loads(entry.value)

    assert asyncio.run(start()) == binding(NEW)


def test_a_store_with_new_names_is_not_written() -> None:
    async def start() -> tuple[int, int]:
        store = Store()
        created = await store.create(f"{BINDINGS}default/web", orjson.dumps(binding(NEW)))
        server = ApiServer(store)
        await server.start()
        entry = store.get(f"{BINDINGS}default/web")
        await server.stop()
        assert entry is not None
        return created.mod_revision, entry.mod_revision

    before, after = asyncio.run(start())
    assert before == after


def test_condition_types_reasons_and_drain_marks_are_renamed() -> None:
    async def start(key: str, obj: dict[str, Any]) -> dict[str, Any]:
        store = Store()
        await store.create(key, orjson.dumps(obj))
        server = ApiServer(store)
        await server.start()
        entry = store.get(key)
        await server.stop()
        assert entry is not None
        return orjson.loads(entry.value)

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
    assert asyncio.run(start(budgets, old)) == new
    assert asyncio.run(start(clusters, cluster("T closed-before"))) == cluster("T cordoned-before")


def test_annotations_are_renamed_on_objects_of_any_kind() -> None:
    async def start() -> dict[str, Any]:
        store = Store()
        annotations = {
            "trimtab.dev/surged": "1",
            "trimtab.dev/surge": "Allowed",
            "example.com/surged": "trimtab.dev/surged",
        }
        obj = {"metadata": {"name": "web", "namespace": "default", "annotations": annotations}}
        await store.create("/registry/apps/deployments/default/web", orjson.dumps(obj))
        server = ApiServer(store)
        await server.start()
        entry = store.get("/registry/apps/deployments/default/web")
        await server.stop()
        assert entry is not None
        return orjson.loads(entry.value)["metadata"]["annotations"]

    assert asyncio.run(start()) == {
        "trimtab.dev/drain-surge-replicas": "1",
        "trimtab.dev/drain-surge": "Allowed",
        "example.com/surged": "trimtab.dev/surged",
    }
