"""Puts the rooms together: one control plane, on whichever API server its client reaches."""

import asyncio
import base64
import contextlib
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast

from trimtab import controllers as controller_modules
from trimtab import plugins as plugin_modules
from trimtab.api import kinds as kind_modules
from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.interpreter import ResourceInterpreterCustomization
from trimtab.api.kinds.native.config import Secret
from trimtab.api.kinds.native.lease import Lease
from trimtab.api.profile import TRIMTAB, Profile
from trimtab.api.value import Key, Raw
from trimtab.client.client import Client, Resource
from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import Credentials
from trimtab.clock import Clock, WallClock
from trimtab.controllers.contract import Controller, controllers
from trimtab.controllers.health import Probe
from trimtab.interpret.cel import compiler
from trimtab.interpret.interpreter import Interpreter
from trimtab.interpret.sandbox import Executor, run_script
from trimtab.members.probe import Prober
from trimtab.members.roster import Roster
from trimtab.registry import discover
from trimtab.runtime.atlas import following
from trimtab.runtime.beat import Surroundings
from trimtab.runtime.cache import Cache, Entry
from trimtab.runtime.fleet import FleetKeeper
from trimtab.runtime.manager import Manager

log = logging.getLogger("trimtab.app")

OWN_GROUPS = ("karmada.io", "open-cluster-management.io", "trimtab.dev")
NEVER_PROPAGATED = {
    "events",
    "events.events.k8s.io",
    "leases.coordination.k8s.io",
    "nodes",
    "componentstatuses",
    "controllerrevisions.apps",
}
"""Kinds that speak of one API server alone."""


def is_propagatable(resource: Resource) -> bool:
    """Whether users may propagate objects of this kind."""
    own = any(resource.group == group or resource.group.endswith("." + group) for group in OWN_GROUPS)
    return not own and resource.id not in NEVER_PROPAGATED


def learn_everything() -> None:
    """Import every kind, plugin and controller, so that their declarations are known."""
    for package in (kind_modules, plugin_modules, controller_modules):
        discover(package)


class Plane:
    """The controllers of one control plane, and what they stand on."""

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock | None = None,
        profile: Profile = TRIMTAB,
        settings: Mapping[str, Any] | None = None,
        connect: Callable[[Cluster], Client | None] | None = None,
        scripts: Executor = run_script,
        probe_seconds: float = 10.0,
        chosen: Callable[[Controller], bool] = lambda _: True,
    ) -> None:
        learn_everything()
        self._scripts = scripts
        self._connect = connect
        self.cache = Cache(client)
        clock = clock or WallClock()
        self.roster = Roster(self.cache, self._client_for, self._member_changed)
        self.around = Surroundings(
            cache=self.cache, clock=clock, profile=profile, members=self.roster, settings=settings
        )
        self.around.parts["fleet"] = FleetKeeper(self.cache, self.around.memory)
        self.around.parts["atlas"] = following(self.cache)
        self.around.parts["cel"] = compiler()
        self.around.parts["interpreter"] = Interpreter.of(executor=scripts, profile=cast("Any", profile.name))
        self._customizations = self.cache.table_of(ResourceInterpreterCustomization)
        self._customizations.listen(self._customized)
        self.cache.table_of(Secret)
        self.cache.table_of(Lease).listen(self._heartbeat)
        self.manager = Manager(
            self.around, [c for c in controllers.values() if chosen(c)], propagatable=is_propagatable
        )
        self._prober = Prober(self.roster, self.cache, clock, self._probed, period=probe_seconds)
        self._probing: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await self.manager.start()
        self._probing = asyncio.get_running_loop().create_task(self._prober.run(), name="probe")

    async def run(self) -> None:
        """Start and stay until cancelled."""
        self._probing = asyncio.get_running_loop().create_task(self._prober.run(), name="probe")
        try:
            await self.manager.run()
        finally:
            await self.stop()

    async def stop(self) -> None:
        if self._probing is not None:
            self._probing.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await self._probing
        await self.manager.stop()
        await self.roster.close()

    @property
    def idle(self) -> bool:
        return self.manager.idle

    def _client_for(self, cluster: Cluster) -> Client | None:
        if self._connect is not None and (client := self._connect(cluster)) is not None:
            return client
        return client_from_secret(cluster, self._secret)

    def _secret(self, namespace: str, name: str) -> Raw | None:
        entry = self.cache.table_of(Secret).entries.get((namespace, name))
        return entry.raw if entry else None

    def _member_changed(self, cluster: str, old: Raw | None, new: Raw | None) -> None:
        for beat in self.manager.beats:
            beat.member_changed(cluster, old, new)

    def _customized(self, old: Entry | None, new: Entry | None) -> None:
        """Users' rules changed: the interpreter is made anew, and everything it judged is looked at again."""
        raws = [entry.raw for entry in self._customizations.entries.values()]
        self.around.parts["interpreter"] = Interpreter.of(
            raws, self._scripts, profile=cast("Any", self.around.profile.name)
        )
        if hasattr(self, "manager"):
            self.manager.look_at_everything("detect", "dispatch", "execute", "aggregate", "dependencies")

    def _heartbeat(self, old: Entry | None, new: Entry | None) -> None:
        """A Pull cluster's agent renews its Lease; that it did is all that counts."""
        if new is not None and new.name[0] == "karmada-cluster":
            self.around.memory["heartbeat", new.name[1]] = self.around.clock.now()

    def _probed(self, cluster: str, probe: Probe) -> None:
        self.around.memory["probe", cluster] = probe
        self.manager.wake("health", Key(kind_of(Cluster).id, "", cluster))


def client_from_secret(cluster: Cluster, secret: Callable[[str, str], Raw | None]) -> Client | None:
    """A client with the credentials that joining left on the host."""
    ref = cluster.spec.secret_ref
    held = secret(ref.namespace, ref.name) if ref is not None else None
    if held is None or not cluster.spec.api_endpoint:
        return None
    data = held.get("data") or {}
    read = partial(_decoded, data)
    return KubeClient(
        Credentials(
            server=cluster.spec.api_endpoint.rstrip("/"),
            ca=read("caBundle"),
            skip_verify=bool(cluster.spec.insecure_skip_tls_verification),
            proxy=cluster.spec.proxy_url,
            token=read("token").decode(),
            cert=read("tls.crt"),
            key=read("tls.key"),
        )
    )


def _decoded(data: Mapping[str, str], name: str) -> bytes:
    return base64.b64decode(data[name]) if data.get(name) else b""
