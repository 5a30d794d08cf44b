"""A View reads the shared cache, at one point in time, under the profile of the namespace."""

import asyncio
from collections.abc import Awaitable, Callable

from runtime.copier import MAPS, NoMembers
from trimtab.api.kinds.native.config import ConfigMap
from trimtab.api.kinds.native.namespace import Namespace
from trimtab.api.profile import TRIMTAB, UPSTREAM
from trimtab.api.value import Key
from trimtab.client.client import Resource
from trimtab.clock import LoopClock, run_virtually
from trimtab.controllers.contract import NOT_FETCHED, Index, Ref
from trimtab.runtime.cache import Cache
from trimtab.runtime.view import ControlPlaneState, LiveView, TriggerView
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.local import LocalClient
from trimtab.store.store import Store

NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
BY_COLOUR = Index("maps by colour", ConfigMap, lambda one: [one.metadata.labels.get("colour", "")])


def run_scenario(scenario: Callable[[LocalClient, ControlPlaneState], Awaitable[None]]) -> None:
    async def run() -> None:
        server = ApiServer(Store(), ApiServerSettings(clock=LoopClock()))
        await server.start()
        cache = Cache(LocalClient(server))
        state = ControlPlaneState(cache=cache, clock=LoopClock(), profile=TRIMTAB, members=NoMembers())
        try:
            await scenario(LocalClient(server), state)
        finally:
            await cache.close()
            await server.stop()

    run_virtually(run())


async def create_namespace(client: LocalClient, name: str, profile: str) -> None:
    annotations = {"trimtab.dev/profile": profile} if profile else {}
    metadata = {"name": name, "annotations": annotations}
    await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})


def test_namespace_annotation_selects_the_profile_and_unknown_names_are_ignored() -> None:
    async def scenario(client: LocalClient, state: ControlPlaneState) -> None:
        assert state.profile_in("other") is TRIMTAB, "namespaces are not cached yet"
        state.cache.table_of(Namespace)
        for name, profile in (("strict", "upstream"), ("odd", "nonesuch"), ("none", "")):
            await create_namespace(client, name, profile)
        await asyncio.sleep(1)
        assert [state.profile_in(name) for name in ("strict", "odd", "none", "")] == [
            UPSTREAM,
            TRIMTAB,
            TRIMTAB,
            TRIMTAB,
        ]
        await client.patch(NAMESPACES, "", "none", {"metadata": {"annotations": {"trimtab.dev/profile": "upstream"}}})
        await asyncio.sleep(1)
        assert state.profile_in("none") is UPSTREAM

    run_scenario(scenario)


def test_time_stands_still_in_a_view_and_runs_in_a_trigger_view() -> None:
    async def scenario(client: LocalClient, state: ControlPlaneState) -> None:
        view, trigger_view = LiveView(state), TriggerView(state)
        first = (view.now, trigger_view.now)
        await asyncio.sleep(5)
        assert view.now == first[0]
        assert (trigger_view.now - first[1]).total_seconds() == 5

    run_scenario(scenario)


def test_view_reads_typed_raw_and_indexed_objects() -> None:
    async def scenario(client: LocalClient, state: ControlPlaneState) -> None:
        for name, colour in (("b", "red"), ("a", "red"), ("c", "blue")):
            metadata = {"namespace": "default", "name": name, "labels": {"colour": colour}}
            await client.create(MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
        state.cache.table_of(ConfigMap)
        await asyncio.sleep(1)
        view = LiveView(state)
        assert [one.name for one in view.all(ConfigMap, "default")] == ["a", "b", "c"]
        assert [one.name for one in view.by_index(BY_COLOUR, "red")] == ["a", "b"]
        assert view.get(ConfigMap, "default", "nonesuch") is None
        ref = Ref("v1", "ConfigMap", "default", "c")
        assert (view.raw(ref) or {})["metadata"]["labels"] == {"colour": "blue"}
        assert view.key(ref) == Key("configmaps", "default", "c")
        unserved = Ref("example.com/v1", "Ghost", "default", "c")
        assert (view.raw(unserved), view.key(unserved)) == (None, None)
        assert view.raws("example.com/v1", "Ghost") == ()

    run_scenario(scenario)


def test_object_in_a_cluster_that_is_not_joined_is_unseen() -> None:
    async def scenario(client: LocalClient, state: ControlPlaneState) -> None:
        assert LiveView(state).member("m1", Ref("v1", "ConfigMap", "default", "a")) is NOT_FETCHED

    run_scenario(scenario)
