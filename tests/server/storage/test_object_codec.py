"""What travels over the wire: pages, watches, patches, refusals and limits, as clients of Kubernetes know them."""

import asyncio
import base64

import orjson
import pytest

from server.asgi import Wire, with_wire
from trimtab.server.apiserver import ApiServer
from trimtab.server.http.asgi import BODY_LIMIT
from trimtab.store.store import Store

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
POLICIES = "/apis/policy.karmada.io/v1alpha1/namespaces/default/propagationpolicies"
PODS = "/api/v1/namespaces/default/pods"


def config_map(name: str, **data: str) -> dict:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"n": name}}, "data": data}


async def fill(wire: Wire, count: int) -> None:
    for index in range(count):
        assert (await wire("POST", CONFIG_MAPS, config_map(f"c{index}", k=str(index)))).status == 201


def lines(body: bytes) -> list[dict]:
    return [orjson.loads(line) for line in body.splitlines()]


def test_all_pages_show_the_same_moment() -> None:
    async def story(wire: Wire) -> None:
        await fill(wire, 5)
        first = (await wire("GET", f"{CONFIG_MAPS}?limit=2")).json()
        assert first["metadata"]["remainingItemCount"] == 3
        await wire("DELETE", f"{CONFIG_MAPS}/c3")
        await wire("POST", CONFIG_MAPS, config_map("c9"))
        token = first["metadata"]["continue"]
        rest = (await wire("GET", f"{CONFIG_MAPS}?limit=9&continue={token}")).json()
        assert [item["metadata"]["name"] for item in rest["items"]] == ["c2", "c3", "c4"]
        assert rest["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]

    with_wire(story)


def test_a_list_that_took_too_long_may_be_continued_as_it_is_now() -> None:
    async def story(wire: Wire) -> None:
        await fill(wire, 4)
        token = (await wire("GET", f"{CONFIG_MAPS}?limit=1")).json()["metadata"]["continue"]
        await wire("DELETE", f"{CONFIG_MAPS}/c2")
        wire.server.store.compact(wire.server.store.revision)
        late = await wire("GET", f"{CONFIG_MAPS}?limit=9&continue={token}")
        assert (late.status, late.json()["reason"]) == (410, "Expired")
        fresh = late.json()["metadata"]["continue"]
        rest = (await wire("GET", f"{CONFIG_MAPS}?limit=9&continue={fresh}")).json()
        assert [item["metadata"]["name"] for item in rest["items"]] == ["c1", "c3"]

    with_wire(story)


@pytest.mark.parametrize("token", ["garbage", "e30", "!!!"])
def test_an_unknown_token_is_refused(token: str) -> None:
    async def story(wire: Wire) -> None:
        assert (await wire("GET", f"{CONFIG_MAPS}?limit=1&continue={token}")).status == 400

    with_wire(story)


def test_a_watch_begins_with_what_is_there_and_goes_on() -> None:
    async def story(wire: Wire) -> None:
        await fill(wire, 1)
        watching = asyncio.ensure_future(wire("GET", f"{CONFIG_MAPS}?watch=1&timeoutSeconds=5"))
        await asyncio.sleep(1)
        await wire("POST", CONFIG_MAPS, config_map("new"))
        await wire("PATCH", f"{CONFIG_MAPS}/new", {"data": {"a": "b"}}, content_type="application/merge-patch+json")
        await wire("DELETE", f"{CONFIG_MAPS}/new")
        seen = [(event["type"], event["object"]["metadata"]["name"]) for event in lines((await watching).body)]
        assert seen == [("ADDED", "c0"), ("ADDED", "new"), ("MODIFIED", "new"), ("DELETED", "new")]

    with_wire(story)


def test_an_object_that_stops_matching_leaves_the_watch() -> None:
    async def story(wire: Wire) -> None:
        await fill(wire, 1)
        watching = asyncio.ensure_future(wire("GET", f"{CONFIG_MAPS}?watch=1&labelSelector=n%3Dc0&timeoutSeconds=5"))
        await asyncio.sleep(1)
        relabel = {"metadata": {"labels": {"n": "other"}}}
        await wire("PATCH", f"{CONFIG_MAPS}/c0", relabel, content_type="application/merge-patch+json")
        events = lines((await watching).body)
        assert [event["type"] for event in events] == ["ADDED", "DELETED"]
        assert events[1]["object"]["metadata"]["labels"] == {"n": "c0"}
        assert int(events[1]["object"]["metadata"]["resourceVersion"]) > int(
            events[0]["object"]["metadata"]["resourceVersion"]
        )

    with_wire(story)


def test_a_watch_from_a_forgotten_version_says_gone() -> None:
    async def story(wire: Wire) -> None:
        await fill(wire, 3)
        wire.server.store.compact(wire.server.store.revision)
        told = await wire("GET", f"{CONFIG_MAPS}?watch=1&resourceVersion=2&timeoutSeconds=5")
        (event,) = lines(told.body)
        assert (told.status, event["type"], event["object"]["code"]) == (200, "ERROR", 410)

    with_wire(story)


def test_the_initial_events_end_with_a_bookmark() -> None:
    async def story(wire: Wire) -> None:
        await fill(wire, 2)
        query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
        events = lines((await wire("GET", f"{CONFIG_MAPS}?{query}&timeoutSeconds=1")).body)
        assert [event["type"] for event in events] == ["ADDED", "ADDED", "BOOKMARK"]
        assert events[2]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}

    with_wire(story)


def test_a_write_that_changes_nothing_is_no_write() -> None:
    async def story(wire: Wire) -> None:
        await fill(wire, 1)
        before = (await wire("GET", f"{CONFIG_MAPS}/c0")).json()
        for body in ({}, {"data": {"k": "0"}}):
            told = await wire("PATCH", f"{CONFIG_MAPS}/c0", body, content_type="application/merge-patch+json")
            assert told.json()["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
        assert (await wire("PUT", f"{CONFIG_MAPS}/c0", before)).json() == before

    with_wire(story)


def test_the_generation_counts_changes_of_the_spec_only() -> None:
    async def story(wire: Wire) -> None:
        selectors = [{"apiVersion": "apps/v1", "kind": "Deployment"}]
        policy = {
            "apiVersion": "policy.karmada.io/v1alpha1",
            "kind": "PropagationPolicy",
            "metadata": {"name": "p"},
            "spec": {"resourceSelectors": selectors},
        }
        await wire("POST", POLICIES, policy)
        merge = {"content_type": "application/merge-patch+json"}
        labelled = await wire("PATCH", f"{POLICIES}/p", {"metadata": {"labels": {"a": "b"}}}, **merge)
        assert labelled.json()["metadata"]["generation"] == 1
        changed = await wire("PATCH", f"{POLICIES}/p", {"spec": {"priority": 5}}, **merge)
        assert changed.json()["metadata"]["generation"] == 2

    with_wire(story)


def test_two_managers_who_want_different_things_are_told_so() -> None:
    async def story(wire: Wire) -> None:
        apply = {"content_type": "application/apply-patch+yaml"}
        await wire("PATCH", f"{CONFIG_MAPS}/x?fieldManager=one", config_map("x", k="1"), **apply)
        refused = await wire("PATCH", f"{CONFIG_MAPS}/x?fieldManager=two", config_map("x", k="2"), **apply)
        assert refused.status == 409
        assert refused.json()["details"]["causes"][0]["field"] == ".data.k"
        forced = await wire("PATCH", f"{CONFIG_MAPS}/x?fieldManager=two&force=true", config_map("x", k="2"), **apply)
        assert forced.json()["data"] == {"k": "2"}

    with_wire(story)


def test_a_dry_run_leaves_no_trace() -> None:
    async def story(wire: Wire) -> None:
        revision = wire.server.store.revision
        told = await wire("POST", f"{CONFIG_MAPS}?dryRun=All", config_map("x"))
        assert (told.status, "resourceVersion" in told.json()["metadata"]) == (201, False)
        assert wire.server.store.revision == revision

    with_wire(story)


@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        (b"", 400, "BadRequest"),
        (b"{", 400, "BadRequest"),
        (b"[]", 400, "BadRequest"),
        (b'{"kind": 5}', 400, "BadRequest"),
        (b'{"metadata":{"name":"\xff\xfe"}}', 422, "Invalid"),
        (b"[" * 100_000, 400, "BadRequest"),
        (b'{"a":' * 5_000 + b"1" + b"}" * 5_000, 400, "BadRequest"),
        (b'{"metadata":{"name":"Bad_Name"}}', 422, "Invalid"),
        (b'{"metadata":{"name":"x"},"data":{"k":1}}', 400, "BadRequest"),
        (b'{"data":"' + b"x" * BODY_LIMIT + b'"}', 413, "RequestEntityTooLarge"),
    ],
)
def test_bad_bodies_are_refused_with_a_status(body: bytes, status: int, reason: str) -> None:
    async def story(wire: Wire) -> None:
        told = await wire("POST", CONFIG_MAPS, body, content_type="application/json")
        assert (told.status, told.json()["reason"]) == (status, reason)

    with_wire(story)


@pytest.mark.parametrize(("validation", "status"), [("Strict", 400), ("Warn", 201), ("Ignore", 201), ("", 201)])
def test_unknown_fields_are_refused_told_or_dropped(validation: str, status: int) -> None:
    async def story(wire: Wire) -> None:
        body = b'{"metadata":{"name":"x"},"data":{"a":"1","a":"2"},"frob":1}'
        told = await wire("POST", f"{CONFIG_MAPS}?fieldValidation={validation}", body)
        assert told.status == status
        warned = told.headers.get("warning", "")
        if validation in {"Warn", ""}:
            assert r'299 - "unknown field \"frob\""' in warned
            assert r'299 - "duplicate field \"data.a\""' in warned
        else:
            assert not warned

    with_wire(story)


def test_an_eviction_pays_with_the_budget_before_the_pod_goes() -> None:
    async def story(wire: Wire) -> None:
        spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": "n"}
        await wire("POST", PODS, {"metadata": {"name": "p", "labels": {"a": "b"}}, "spec": spec})
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        merge = {"content_type": "application/merge-patch+json"}
        assert (await wire("PATCH", f"{PODS}/p/status", {"status": status}, **merge)).status == 200
        budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
        budget = {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}}
        await wire("POST", budgets, budget)
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
        refused = await wire("POST", f"{PODS}/p/eviction", eviction)
        assert (refused.status, refused.headers["retry-after"]) == (429, "10")
        healthy = {"observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1}
        await wire("PATCH", f"{budgets}/b/status", {"status": healthy}, **merge)
        assert (await wire("POST", f"{PODS}/p/eviction", eviction)).status == 201
        paid = (await wire("GET", f"{budgets}/b")).json()["status"]
        assert (paid["disruptionsAllowed"], list(paid["disruptedPods"])) == (0, ["p"])
        assert "deletionTimestamp" in (await wire("GET", f"{PODS}/p")).json()["metadata"]

    with_wire(story)


def gizmo_definition() -> dict:
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {"size": {"type": "integer", "default": 3, "maximum": 9}},
                "x-kubernetes-validations": [{"rule": "self.size != 7", "message": "seven is taken"}],
            }
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "gizmos.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "gizmos", "kind": "Gizmo", "shortNames": ["gz"]},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
                }
            ],
        },
    }


def test_a_kind_that_a_user_defines_is_served_checked_and_withdrawn() -> None:
    async def story(wire: Wire) -> None:
        definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        gizmos = "/apis/example.com/v1/namespaces/default/gizmos"
        assert (await wire("POST", definitions, gizmo_definition())).status == 201
        await asyncio.sleep(0.1)
        conditions = (await wire("GET", f"{definitions}/gizmos.example.com")).json()["status"]["conditions"]
        assert {c["type"]: c["status"] for c in conditions} == {"NamesAccepted": "True", "Established": "True"}
        head = {"apiVersion": "example.com/v1", "kind": "Gizmo"}
        made = await wire("POST", gizmos, {**head, "metadata": {"name": "g"}, "spec": {"junk": 1}})
        assert made.json()["spec"] == {"size": 3}
        refused = await wire("POST", gizmos, {**head, "metadata": {"name": "h"}, "spec": {"size": 12}})
        assert "should be less than or equal to 9" in refused.json()["message"]
        ruled = await wire("POST", gizmos, {**head, "metadata": {"name": "h"}, "spec": {"size": 7}})
        assert ruled.json()["details"]["causes"][0]["message"] == "Invalid value: seven is taken"
        table = await wire("GET", gizmos, accept="application/json;as=Table;v=v1;g=meta.k8s.io")
        assert table.json()["rows"][0]["cells"] == ["g", 3]
        await wire("DELETE", f"{definitions}/gizmos.example.com")
        await asyncio.sleep(0.1)
        assert (await wire("GET", gizmos)).body == b"404 page not found\n"

    with_wire(story)


def test_protobuf_comes_back_to_those_who_prefer_it() -> None:
    async def story(wire: Wire) -> None:
        await fill(wire, 1)
        wish = {"accept": "application/vnd.kubernetes.protobuf,application/json"}
        told = await wire("GET", f"{CONFIG_MAPS}/c0", **wish)
        assert (told.headers["content-type"], told.body[:4]) == ("application/vnd.kubernetes.protobuf", b"k8s\0")
        assert (await wire("GET", POLICIES, **wish)).headers["content-type"] == "application/json"

    with_wire(story)


def test_a_change_of_the_catalogue_changes_the_tags_of_its_documents() -> None:
    async def story(wire: Wire) -> None:
        accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        first = await wire("GET", "/apis", accept=accept)
        again = await wire("GET", "/apis", accept=accept, if_none_match=first.headers["etag"])
        assert again.status == 304
        index = await wire("GET", "/openapi/v3")
        await wire("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", gizmo_definition())
        await asyncio.sleep(0.1)
        changed = await wire("GET", "/apis", accept=accept, if_none_match=first.headers["etag"])
        assert (changed.status, b"gizmos" in changed.body) == (200, True)
        added = set((await wire("GET", "/openapi/v3")).json()["paths"]) - set(index.json()["paths"])
        assert added == {"apis/example.com/v1"}

    with_wire(story)


def test_secrets_are_stored_as_bytes_that_decode() -> None:
    async def story(wire: Wire) -> None:
        path = "/api/v1/namespaces/default/secrets"
        told = await wire("POST", path, {"metadata": {"name": "s"}, "stringData": {"k": "v"}})
        assert base64.b64decode(told.json()["data"]["k"]) == b"v"

    with_wire(story)


def test_many_who_change_one_object_at_once_all_succeed(tmp_path) -> None:
    async def story() -> None:
        server = ApiServer(Store.open(tmp_path))
        await server.start()
        wire = Wire(server)
        await wire("POST", CONFIG_MAPS, config_map("shared"))
        merge = {"content_type": "application/merge-patch+json"}
        writes = [wire("PATCH", f"{CONFIG_MAPS}/shared", {"data": {f"k{n}": "v"}}, **merge) for n in range(40)]
        assert {told.status for told in await asyncio.gather(*writes)} == {200}
        assert len((await wire("GET", f"{CONFIG_MAPS}/shared")).json()["data"]) == 40
        await server.stop()

    asyncio.run(story())


def test_a_pod_may_be_bound_in_the_older_way() -> None:
    async def story(wire: Wire) -> None:
        await wire("POST", PODS, {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
        binding = {"kind": "Binding", "apiVersion": "v1", "metadata": {"name": "p"}, "target": {"name": "n"}}
        assert (await wire("POST", "/api/v1/namespaces/default/bindings", binding)).status == 201
        assert (await wire("GET", f"{PODS}/p")).json()["spec"]["nodeName"] == "n"

    with_wire(story)
