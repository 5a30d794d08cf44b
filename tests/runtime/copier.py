"""A control plane with one controller of ConfigMaps, for tests of the runtime: in process on virtual time, or over TLS."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path

from trimtab.api.kind import kind_of
from trimtab.api.kinds.native.config import ConfigMap, Secret
from trimtab.api.profile import TRIMTAB
from trimtab.api.value import Key, Meta
from trimtab.client.client import Client, resource_of
from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import load
from trimtab.clock import Clock, LoopClock, WallClock, run_virtually
from trimtab.controllers.contract import Controller, Delete, Effect, Topic, Trigger, View, controller
from trimtab.registry import Registry
from trimtab.runtime.cache import Cache
from trimtab.runtime.manager import ControllerManager
from trimtab.runtime.observers.reconcile_observers import ReconcileObserver
from trimtab.runtime.view import ControlPlaneState, ViewSources
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.daemon import Daemon
from trimtab.server.local import LocalClient
from trimtab.store.store import Store

MAPS = resource_of(kind_of(ConfigMap))
SECRETS = resource_of(kind_of(Secret))
SEEN: Topic[str, bool] = Topic("seen")
"""The names of the ConfigMaps that a controller has reconciled."""


class NoMembers:
    """A fleet without members."""

    def get(self, cluster: str) -> None:
        return None


def new_controller(reconcile: Callable[..., Iterator[Effect]], *writes: str, wakes=(), **more) -> Controller:
    """A controller of ConfigMaps that is in no registry but its own."""
    registry: Registry[Controller] = Registry("controller")
    controller(ConfigMap, writes=writes, triggers=wakes, registry=registry, name="copier", **more)(reconcile)
    return registry["copier"]


class Harness:
    """A running control plane with one controller, and the client of a user."""

    def __init__(self, user: Client, manager: ControllerManager) -> None:
        self.user = user
        self.manager = manager

    async def create_map(self, name: str, **data: str) -> dict:
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"namespace": "default", "name": name},
            "data": data,
        }
        return await self.user.create(MAPS, body)

    async def until(self, is_true: Callable[[], Awaitable[bool]], seconds: float = 20) -> None:
        async with asyncio.timeout(seconds):
            while not await is_true():  # noqa: ASYNC110 - the server is remote and sets no event
                await asyncio.sleep(0.02)

    async def get_map(self, name: str) -> dict:
        return await self.user.get(MAPS, "default", name)


Scenario = Callable[[Harness], Awaitable[None]]


async def run_with_clients(
    chosen: Controller,
    own: Client,
    user: Client,
    clock: Clock,
    scenario: Scenario,
    sources: ViewSources | None = None,
    observers: Sequence[ReconcileObserver] = (),
    others: Sequence[Controller] = (),
) -> None:
    state = ControlPlaneState(cache=Cache(own), clock=clock, profile=TRIMTAB, members=NoMembers(), sources=sources)
    state.reconcile_observers.extend(observers)
    manager = ControllerManager(state, [chosen, *others])
    await manager.start()
    try:
        await scenario(Harness(user, manager))
    finally:
        await manager.stop()


def run_scenario(
    chosen: Controller,
    scenario: Scenario,
    client=LocalClient,
    clock: Clock | None = None,
    sources: ViewSources | None = None,
    observers: Sequence[ReconcileObserver] = (),
    others: Sequence[Controller] = (),
) -> None:
    """In process, on virtual time; `client` may be a class that misbehaves."""

    async def run() -> None:
        server = ApiServer(Store(), ApiServerSettings(clock=LoopClock()))
        await server.start()
        try:
            user = LocalClient(server)
            own, time = client(server), clock or LoopClock()
            await run_with_clients(chosen, own, user, time, scenario, sources, observers, others)
        finally:
            await server.stop()

    run_virtually(run())


def run_scenario_over_tls(
    chosen: Controller, scenario: Scenario, folder: Path, others: Sequence[Controller] = ()
) -> None:
    async def run() -> None:
        daemon = Daemon(folder, "127.0.0.1", 0)
        await daemon.start()
        clients = [KubeClient(load(daemon.kubeconfig)) for _ in range(2)]
        try:
            await run_with_clients(chosen, clients[0], clients[1], WallClock(), scenario, others=others)
        finally:
            for client in clients:
                await client.close()
            await daemon.stop()

    asyncio.run(run())


def new_secret(name: str, text: str) -> Secret:
    return Secret(metadata=Meta(namespace="default", name=name), type="Opaque", data={"copy": text})


def copy(source: ConfigMap, view: View) -> Iterator[Effect]:
    """Keeps a Secret with the text of each ConfigMap that has one, and annotates the ConfigMap."""
    text = (source.data or {}).get("text")
    if text is None:
        return
    existing = view.get(Secret, "default", source.name)
    yield existing.but(data={"copy": text}) if existing else new_secret(source.name, text)
    yield source.but(metadata=source.metadata.but(annotations={**source.metadata.annotations, "copied": text}))


def source_deleted(key: Key, view: View) -> Iterator[Effect]:
    if existing := view.get(Secret, key.namespace, key.name):
        yield Delete(existing)


def source_of(old: Secret | None, new: Secret | None, view: View) -> Iterator[Key]:
    meta = (new or old).metadata
    yield Key(kind_of(ConfigMap).id, meta.namespace, meta.name)


COPIER = new_controller(
    copy, "Secret", "metadata.annotations", wakes=[Trigger(Secret, source_of)], on_deleted=source_deleted
)
