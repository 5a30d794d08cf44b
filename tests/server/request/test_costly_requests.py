"""Small requests that cost much because of what others stored are processed in a thread."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from server.asgi import AsgiClient, with_asgi_client
from trimtab.api.limits import MAX_BYTES_IN_LOOP, MAX_CAUSES, MAX_SCHEMA_VALUES_IN_LOOP
from trimtab.api.schema import structural_check
from trimtab.api.schema.structural import StructuralSchema
from trimtab.server.admission import limit_ranges
from trimtab.server.admission.dynamic import policy_expressions
from trimtab.server.admission.dynamic.policy_expressions import PolicyExpressions
from trimtab.server.background.ownership_graph import OwnershipGraph
from trimtab.server.discovery.discovery import Discovery
from trimtab.server.printers import table
from trimtab.server.printers.table import TablePrinter
from trimtab.server.registry import crds, object_deletion, object_schema
from trimtab.server.registry.cel_rules import CelExpressions
from trimtab.server.request import large_objects
from trimtab.server.storage import object_codec

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GIZMOS = "/apis/example.com/v1/namespaces/default/gizmos"
MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
HOOKS = "/apis/admissionregistration.k8s.io/v1"
MERGE = {"content_type": "application/merge-patch+json"}
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
METADATA = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
AGGREGATED = "{};g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
MAP_RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}


class Threads:
    """Says in which threads some functions ran."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self.found: dict[str, set[bool]] = {}
        """By function: whether calls of it ran in the event loop."""

    def note(self, owner: Any, name: str, counts: Callable[..., bool] = lambda *_: True) -> None:
        function = getattr(owner, name)

        def call(*arguments: Any, **options: Any) -> Any:
            if counts(*arguments):
                in_loop = threading.current_thread() is threading.main_thread()
                self.found.setdefault(name, set()).add(in_loop)
            return function(*arguments, **options)

        self._monkeypatch.setattr(owner, name, call)

    def check(self, *names: str) -> None:
        """All of these ran, and none in the event loop."""
        assert self.found == {name: {False} for name in names}


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> Threads:
    return Threads(monkeypatch)


def definition(schema: dict[str, Any], **version: Any) -> dict[str, Any]:
    names = {"plural": "gizmos", "singular": "gizmo", "kind": "Gizmo", "listKind": "GizmoList"}
    served = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}, **version}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "gizmos.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [served]},
    }


def gizmo(**fields: Any) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Gizmo", "metadata": {"name": "g"}, **fields}


def wide_schema(count: int) -> dict[str, Any]:
    return {"type": "object", "properties": {f"p{number}": {"type": "string"} for number in range(count)}}


async def define(client: AsgiClient, body: dict[str, Any]) -> None:
    assert (await client("POST", CRDS, body)).status == 201
    await wait_for_controllers()


async def wait_for_controllers() -> None:
    for _ in range(10):
        await asyncio.sleep(1)
        await large_objects.run(True, int)  # the virtual clock does not wait for the thread


def test_small_objects_with_a_large_schema_are_processed_in_a_thread(threads: Threads) -> None:
    def is_gizmo(_: StructuralSchema, obj: Any, *__: Any) -> bool:
        return obj.get("kind") == "Gizmo"

    threads.note(StructuralSchema, "check", is_gizmo)
    threads.note(StructuralSchema, "prune", is_gizmo)
    threads.note(object_schema, "track_update", lambda _, new, *__: new.get("kind") == "Gizmo")

    async def scenario(client: AsgiClient) -> None:
        await define(client, definition(wide_schema(MAX_SCHEMA_VALUES_IN_LOOP)))
        assert (await client("POST", GIZMOS, gizmo(p1="x"))).status == 201
        assert (await client("PATCH", f"{GIZMOS}/g", {"p1": "y"}, **MERGE)).status == 200
        assert (await client("PATCH", f"{GIZMOS}/g", {"p1": 1}, **MERGE)).status == 422

    with_asgi_client(scenario)
    threads.check("check", "prune", "track_update")


def test_small_objects_with_a_small_schema_are_processed_in_the_event_loop(threads: Threads) -> None:
    threads.note(StructuralSchema, "prune", lambda _, obj: obj.get("kind") == "Gizmo")

    async def scenario(client: AsgiClient) -> None:
        await define(client, definition(wide_schema(10)))
        assert (await client("POST", GIZMOS, gizmo(p1="x"))).status == 201

    with_asgi_client(scenario)
    assert threads.found == {"prune": {True}}


def test_large_definition_is_compiled_in_a_thread(threads: Threads) -> None:
    threads.note(crds, "unpack", lambda _, value, __: b"gizmos.example.com" in value)
    threads.note(crds, "resources_of_crd", lambda spec, *_: spec["group"] == "example.com")

    async def scenario(client: AsgiClient) -> None:
        await define(client, definition(wide_schema(9000)))
        assert (await client("GET", GIZMOS)).status == 200
        changed = {"spec": {"versions": definition(wide_schema(9001))["spec"]["versions"]}}
        assert (await client("PATCH", f"{CRDS}/gizmos.example.com", changed, **MERGE)).status == 200
        await wait_for_controllers()
        assert (await client("POST", GIZMOS, gizmo(p9000="x"))).json()["p9000"] == "x"

    with_asgi_client(scenario)
    threads.check("unpack", "resources_of_crd")


def test_long_pattern_is_compiled_in_a_thread_also_when_something_else_changes(threads: Threads) -> None:
    threads.note(structural_check, "pattern_size", lambda text: text == "a" * 9000)
    schema = {"type": "object", "properties": {"p1": {"type": "string", "pattern": "a" * 9000}}}

    async def scenario(client: AsgiClient) -> None:
        assert (await client("POST", CRDS, definition(schema))).status == 201
        changed = {"metadata": {"labels": {"a": "b"}}}
        assert (await client("PATCH", f"{CRDS}/gizmos.example.com", changed, **MERGE)).status == 200

    with_asgi_client(scenario)
    threads.check("pattern_size")


@pytest.mark.parametrize(
    ("accept", "builder"),
    [
        ("application/json", "_build_group_list"),
        (AGGREGATED.format("application/json"), "_build_aggregated_document"),
        (AGGREGATED.format("application/vnd.kubernetes.protobuf"), "_build_aggregated_document"),
    ],
)
def test_discovery_is_built_once_after_a_change_and_in_a_thread(threads: Threads, accept: str, builder: str) -> None:
    threads.note(Discovery, builder)

    async def scenario(client: AsgiClient) -> None:
        first = await client("GET", "/apis", accept=accept)
        assert first.status == 200
        threads.check(builder)
        threads.found.clear()
        assert (await client("GET", "/apis", accept=accept)).body == first.body
        assert threads.found == {}
        await define(client, definition(wide_schema(1)))
        assert b"example.com" in (await client("GET", "/apis", accept=accept)).body

    with_asgi_client(scenario)
    threads.check(builder)


@pytest.mark.parametrize(("number", "value"), [(200, "x"), (8, "x" * (MAX_BYTES_IN_LOOP // 8))])
def test_tables_whose_columns_search_much_are_built_in_a_thread(threads: Threads, number: int, value: str) -> None:
    threads.note(TablePrinter, "row")
    columns = [{"name": f"c{place}", "type": "string", "jsonPath": ".p1"} for place in range(number)]

    async def scenario(client: AsgiClient) -> None:
        await define(client, definition(wide_schema(2), additionalPrinterColumns=columns))
        assert (await client("POST", GIZMOS, gizmo(p1=value))).status == 201
        for path in (GIZMOS, f"{GIZMOS}/g"):
            rows = (await client("GET", path, accept=TABLE)).json()["rows"]
            assert rows[0]["cells"] == ["g", *[value] * number]
        watched = await client("GET", f"{GIZMOS}?watch=1&timeoutSeconds=5", accept=TABLE)
        assert watched.body.count(b'"Table"') == 1

    with_asgi_client(scenario, runner=asyncio.run)  # in virtual time the watch ends before the thread has its row
    threads.check("row")


@pytest.mark.parametrize("accept", [TABLE, METADATA])
def test_large_objects_of_a_list_are_decoded_in_a_thread(threads: Threads, accept: str) -> None:
    async def scenario(client: AsgiClient) -> None:
        body = {"metadata": {"name": "big"}, "data": {"k": "v" * MAX_BYTES_IN_LOOP}}
        assert (await client("POST", MAPS, body)).status == 201
        threads.note(table, "unpack")
        threads.note(object_codec, "unpack", lambda served, *_: served.resource == "configmaps")
        found = (await client("GET", MAPS, accept=accept)).json()
        names = [(one.get("object") or one)["metadata"]["name"] for one in found.get("rows") or found["items"]]
        assert "big" in names

    with_asgi_client(scenario)
    threads.check("unpack")


def test_large_object_is_decoded_for_its_deletion_in_a_thread(threads: Threads) -> None:
    metadata = {"name": "big", "finalizers": ["example.com/wait"]}
    data = {f"k{number}": "v" for number in range(9000)}

    async def scenario(client: AsgiClient) -> None:
        assert (await client("POST", MAPS, {"metadata": metadata, "data": data})).status == 201
        threads.note(object_deletion, "unpack")
        threads.note(object_deletion, "stored_form")
        assert (await client("DELETE", f"{MAPS}/big")).status == 200

    with_asgi_client(scenario)
    threads.check("unpack", "stored_form")


def test_large_object_that_waits_for_finalizers_is_not_decoded_again(threads: Threads) -> None:
    metadata = {"name": "big", "finalizers": ["example.com/wait"]}
    data = {f"k{number}": "v" for number in range(9000)}

    async def scenario(client: AsgiClient) -> None:
        assert (await client("POST", MAPS, {"metadata": metadata, "data": data})).status == 201
        threads.note(object_codec, "unpack", lambda _, value, __: len(value) > 9000)
        assert (await client("DELETE", f"{MAPS}/big")).json()["metadata"]["deletionTimestamp"]

    with_asgi_client(scenario)
    assert threads.found == {}


def test_many_owners_are_looked_for_in_a_thread(threads: Threads) -> None:
    threads.note(OwnershipGraph, "deletion_options")
    owners = [{"apiVersion": "v1", "kind": "Secret", "name": f"o{number}", "uid": str(number)} for number in range(600)]

    async def scenario(client: AsgiClient) -> None:
        body = {"metadata": {"name": "dependent", "ownerReferences": owners}}
        assert (await client("POST", MAPS, body)).status == 201
        await wait_for_controllers()
        assert (await client("GET", f"{MAPS}/dependent")).status == 404

    with_asgi_client(scenario)
    threads.check("deletion_options")


def test_refusal_names_a_bounded_number_of_causes() -> None:
    data = {f"bad key {number}": "v" for number in range(MAX_CAUSES + 7)}

    async def scenario(client: AsgiClient) -> None:
        refused = await client("POST", MAPS, {"metadata": {"name": "bad"}, "data": data})
        assert refused.status == 422
        assert len(refused.json()["details"]["causes"]) == MAX_CAUSES
        assert refused.json()["message"].endswith(" and 7 more")

    with_asgi_client(scenario)


POLICY = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicy",
    "metadata": {"name": "p"},
    "spec": {"matchConstraints": {"resourceRules": [MAP_RULE]}},
}


async def bind_policy(client: AsgiClient, **spec: Any) -> None:
    policy = {**POLICY, "spec": {**POLICY["spec"], **spec}}
    assert (await client("POST", f"{HOOKS}/validatingadmissionpolicies", policy)).status == 201
    bound = {"metadata": {"name": "p"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}}
    assert (await client("POST", f"{HOOKS}/validatingadmissionpolicybindings", bound)).status == 201


def test_expressions_of_policies_are_evaluated_in_a_thread(threads: Threads) -> None:
    threads.note(PolicyExpressions, "evaluate")

    async def scenario(client: AsgiClient) -> None:
        await bind_policy(client, validations=[{"expression": "object.metadata.name != 'bad'"}])
        assert (await client("POST", MAPS, {"metadata": {"name": "good"}})).status == 201
        assert (await client("POST", MAPS, {"metadata": {"name": "bad"}})).status == 422

    with_asgi_client(scenario)
    threads.check("evaluate")


def test_all_expressions_of_a_policy_share_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_expressions, "_COST_BUDGET", 4000)
    every = {"expression": "object.data.all(k, k != 'x')"}

    async def scenario(client: AsgiClient) -> None:
        await bind_policy(client, validations=[every] * 40)
        small = {"metadata": {"name": "small"}, "data": {"k": "v"}}
        assert (await client("POST", MAPS, small)).status == 201
        large = {"metadata": {"name": "large"}, "data": {f"k{number}": "v" for number in range(500)}}
        refused = await client("POST", MAPS, large)
        assert refused.status == 422
        assert "running out of cost budget" in refused.json()["message"]
        assert (await client("POST", MAPS, {**small, "metadata": {"name": "later"}})).status == 201

    with_asgi_client(scenario)


def test_conditions_of_webhooks_are_compiled_and_evaluated_in_a_thread(threads: Threads) -> None:
    threads.note(CelExpressions, "evaluate")
    threads.note(CelExpressions, "compile_error", lambda _, text, *__: "object.metadata" in text)
    conditions = [{"name": f"c{number}", "expression": f"object.metadata.name != 'n{number}'"} for number in range(30)]
    hook = {
        "name": "a.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [MAP_RULE],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "matchConditions": conditions,
    }

    async def scenario(client: AsgiClient) -> None:
        body = {"metadata": {"name": "w"}, "webhooks": [hook]}
        assert (await client("POST", f"{HOOKS}/validatingwebhookconfigurations", body)).status == 201
        assert (await client("POST", MAPS, {"metadata": {"name": "n29"}})).status == 201

    with_asgi_client(scenario)
    threads.check("evaluate", "compile_error")


def limit_range(**item: Any) -> dict[str, Any]:
    return {"metadata": {"name": "l"}, "spec": {"limits": [{"type": "Container", **item}]}}


def pod(name: str, containers: int) -> dict[str, Any]:
    listed = [{"name": f"c{number}", "image": "app:1"} for number in range(containers)]
    return {"metadata": {"name": name}, "spec": {"containers": listed}}


def test_many_bounds_are_compared_in_a_thread(threads: Threads) -> None:
    threads.note(limit_ranges, "_pod_with_defaults")
    threads.note(limit_ranges, "_all_faults", bool)
    amounts = {f"r{number}.example.com/x": "1" for number in range(300)}

    async def scenario(client: AsgiClient) -> None:
        path = "/api/v1/namespaces/default/limitranges"
        assert (await client("POST", path, limit_range(default=amounts, max=amounts))).status == 201
        assert (await client("POST", PODS, pod("p", 10))).status == 201

    with_asgi_client(scenario)
    threads.check("_pod_with_defaults", "_all_faults")


def test_defaults_that_no_object_can_hold_are_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limit_ranges, "MAX_OBJECT_NODES", 7_000)
    amounts = {f"r{number}.example.com/x": "1" for number in range(300)}

    async def scenario(client: AsgiClient) -> None:
        path = "/api/v1/namespaces/default/limitranges"
        assert (await client("POST", path, limit_range(default=amounts))).status == 201
        assert (await client("POST", PODS, pod("few", 10))).status == 201
        refused = await client("POST", PODS, pod("many", 20))
        assert refused.status == 413
        assert "with its defaults" in refused.json()["message"]

    with_asgi_client(scenario)
