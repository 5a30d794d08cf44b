"""The manager fills the caches, runs the controllers, and reports what they do."""

import asyncio
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from fake_clocks import SteppingClock
from runtime.copier import COPIER, MAPS, Harness, NoMembers, new_controller, run_scenario
from trimtab.api.kind import kind_of
from trimtab.api.kinds.native.config import ConfigMap
from trimtab.api.profile import TRIMTAB
from trimtab.api.value import Key, Raw
from trimtab.clock import LoopClock, run_virtually
from trimtab.controllers.contract import Controller, Effect, RememberInProcess, RequeueAfter, Topic, View, controller
from trimtab.registry import Registry
from trimtab.runtime.cache import Cache
from trimtab.runtime.manager import ControllerManager
from trimtab.runtime.view import ControlPlaneState
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.local import LocalClient
from trimtab.store.store import Store


def test_metrics_count_reconciles_and_writes() -> None:
    async def scenario(harness: Harness) -> None:
        await harness.create_map("a", text="Zmlyc3Q=")
        await asyncio.sleep(5)
        durations = {labels["controller"]: one for _, labels, one in harness.manager.histograms()}
        (counted,) = [line for line in durations["copier"].lines("x", {}) if line.startswith("x_count")]
        assert int(counted.split()[1]) > 0
        found = {sample.name: sample for sample in harness.manager.samples()}
        assert found["trimtab_controller_writes_total"].value == 2
        assert found["trimtab_controller_reconciles_total"].value >= 2
        assert found["trimtab_controller_failing_objects"].value == 0
        assert all(sample.labels == {"controller": "copier"} for sample in found.values())

    run_scenario(COPIER, scenario)


def test_lag_is_the_age_of_the_oldest_queued_keys_while_controllers_run() -> None:
    def reconcile(source: ConfigMap, view: View) -> Iterator[Effect]:
        yield from ()

    async def scenario(harness: Harness) -> None:
        manager = harness.manager
        assert manager.lag == 0
        manager.enqueue("copier", Key(kind_of(ConfigMap).id, "default", "a"))
        assert manager.lag > 0
        await asyncio.sleep(1)
        assert manager.lag == 0
        await manager.stop()
        manager.enqueue("copier", Key(kind_of(ConfigMap).id, "default", "b"))
        assert manager.lag == 0, "nobody takes the key"

    run_scenario(new_controller(reconcile, "status"), scenario)


def test_key_is_queued_for_the_named_controller_only() -> None:
    reconciled: list[str] = []

    def reconcile(source: ConfigMap, view: View) -> Iterator[Effect]:
        reconciled.append(source.name)
        yield from ()

    async def scenario(harness: Harness) -> None:
        await harness.create_map("a")
        await asyncio.sleep(1)
        reconciled.clear()
        harness.manager.enqueue("other", Key(kind_of(ConfigMap).id, "default", "a"))
        await asyncio.sleep(1)
        assert reconciled == []
        harness.manager.enqueue("copier", Key(kind_of(ConfigMap).id, "default", "a"))
        await asyncio.sleep(1)
        assert reconciled == ["a"]

    run_scenario(new_controller(reconcile, "status"), scenario)


TEMPLATES: Topic[str, bool] = Topic("templates")


def new_template_controller() -> Controller:
    """A controller of every propagatable kind."""
    registry: Registry[Controller] = Registry("controller")

    def reconcile(template: Raw, view: View) -> Iterator[Effect]:
        yield RememberInProcess(TEMPLATES, template["metadata"]["name"], value=True)

    controller(writes=["status"], registry=registry, name="templates")(reconcile)
    return registry["templates"]


def test_controller_without_subjects_gets_objects_of_propagatable_kinds_only() -> None:
    async def run() -> None:
        server = ApiServer(Store(), ApiServerSettings(clock=LoopClock()))
        await server.start()
        client = LocalClient(server)
        state = ControlPlaneState(cache=Cache(client), clock=LoopClock(), profile=TRIMTAB, members=NoMembers())
        manager = ControllerManager(
            state, [new_template_controller()], propagatable=lambda resource: resource.id == MAPS.id
        )
        assert not manager.started
        await manager.start()
        assert manager.started
        metadata = {"namespace": "default", "name": "a"}
        await client.create(MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
        await asyncio.sleep(1)
        assert list(state.resources) == [("v1", "ConfigMap")]
        assert state.memory.recall(TEMPLATES, "a")
        assert not state.memory.recall(TEMPLATES, "default"), "namespaces are not propagatable here"
        await manager.stop()
        await server.stop()

    run_virtually(run())


@pytest.mark.parametrize("days", [100, -100])
def test_what_waits_for_a_time_is_reconciled_once_when_the_clock_was_set(days: int) -> None:
    clock = SteppingClock()
    reconciled: list[tuple[str, datetime]] = []

    def reconcile(source: ConfigMap, view: View) -> Iterator[Effect]:
        reconciled.append((source.name, view.now))
        yield RequeueAfter(90 * 86_400)

    async def scenario(harness: Harness) -> None:
        await harness.create_map("a")
        await asyncio.sleep(3600)
        assert len(reconciled) == 1
        clock.offset = timedelta(days=days)
        await harness.create_map("b")
        await asyncio.sleep(3600)
        names = [name for name, _ in reconciled]
        assert names == ["a", "b", "a"]
        assert abs(reconciled[2][1] - reconciled[0][1]) > timedelta(days=99)

    run_scenario(new_controller(reconcile, "status"), scenario, clock=clock)
