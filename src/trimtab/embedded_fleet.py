"""A whole fleet in one process: the embedded API server, simulated members and a control plane."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import msgspec
import orjson

from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import Cluster, ResourceModel
from trimtab.api.kinds.rebalancer import WorkloadRebalancer
from trimtab.api.profile import TRIMTAB, Profile
from trimtab.api.value import Raw
from trimtab.app import ControlPlane
from trimtab.client.client import Client, resource_of
from trimtab.client.kube import KubeClient
from trimtab.client.otlp import TraceTarget
from trimtab.client.webhook import WebhookTarget
from trimtab.clock import Clock
from trimtab.controllers.clusters.served import SIMULATED_SUFFIX
from trimtab.controllers.selection import IsEnabled
from trimtab.debug_pages import DebugPages, debug_action
from trimtab.dryrun.cached_state import state_in_cache
from trimtab.dryrun.plan_thread import PlanThread
from trimtab.dryrun.rebalancer_preview import preview_status
from trimtab.errors import AlreadyExists
from trimtab.members.agent import CONTROLLERS as AGENT_CONTROLLERS
from trimtab.members.probe import CapacitySummary
from trimtab.members.proxy import MemberProxy, ServeRequest
from trimtab.members.search_api import GROUP as SEARCH_GROUP
from trimtab.members.search_api import SearchApi, served_search_resources
from trimtab.runtime.declarations import load_declarations
from trimtab.runtime.script_answers import ScriptRunner
from trimtab.server import api_errors
from trimtab.server.apiserver import ApiServer
from trimtab.server.local import LocalClient
from trimtab.server.request.messages import Request
from trimtab.server.request.routes import RequestInfo
from trimtab.simulate.faults import FaultInjector, FaultRequest
from trimtab.simulate.faults import action_of as fault_action
from trimtab.simulate.fleet import FleetPlan, MemberPlan
from trimtab.simulate.lean.member import LeanMember
from trimtab.simulate.world import World
from trimtab.store.keys import object_key


class EmbeddedFleet:
    """A whole fleet in one process: embedded API server, simulated members and control plane."""

    def __init__(
        self,
        fleet: FleetPlan,
        *,
        host: ApiServer,
        clock: Clock,
        profile: Profile = TRIMTAB,
        settings: Mapping[str, Any] | None = None,
        seed: int = 0,
        directory: Path | None = None,
        scripts: ScriptRunner | None = None,
        probe_seconds: float = 10.0,
        wrap_client: Callable[[Client, str], Client] = lambda client, _: client,
        whole_clusters: bool = False,
        notify: WebhookTarget | None = None,
        trace: TraceTarget | None = None,
        is_enabled: IsEnabled = lambda _: True,
        state_file: Path | None = None,
    ) -> None:
        """`state_file` keeps what the controllers know while they do not run.

        `wrap_client` wraps the clients of the control plane: one for the host (cluster is empty), one per member."""
        load_declarations()
        self._wrap_client = wrap_client
        self.profile = profile
        self.settings = dict(settings or {})
        self._plans = PlanThread()
        self.host = host
        self.client = LocalClient(host)
        self.world = World(
            fleet,
            seed=seed,
            clock=clock,
            profile=profile,
            directory=directory,
            whole_clusters=whole_clusters,
            flow_control=host.flow_control,
        )
        self._make_plane = partial(
            ControlPlane,
            clock=clock,
            profile=profile,
            settings=settings,
            connect=self._connect,
            scripts=scripts,
            probe_seconds=probe_seconds,
            known_capacity=self._known_capacity,
            notify=notify,
            trace=trace,
            is_enabled=is_enabled,
            state_file=state_file,
        )
        self.plane: ControlPlane | None = None
        self.endpoints: dict[str, str] = {}
        """Addresses at which clients outside of this process reach members; the control plane does not dial them."""
        self.faults = FaultInjector(self.world)
        self.debug_pages = DebugPages(
            host.store, profile, lambda: self.plane.state if self.plane is not None else None, settings or {}
        )
        self._extend_host(clock)

    def _extend_host(self, clock: Clock) -> None:
        """Serve what only a fleet in one process has: proxies to members, search, faults, debug pages, its metrics."""
        host = self.host
        proxy = MemberProxy(self._find_server)
        host.handler.add_subresource(kind_of(Cluster).id, "proxy", proxy.forward)
        self._serve_search(host, proxy, clock)
        host.nonresource_paths.add_page("simulation", self.faults.handle, fault_action)
        host.nonresource_paths.add_page("debug", self.debug_pages.handle, debug_action)
        host.resource_store.dry_run_previews[kind_of(WorkloadRebalancer).id] = self._preview_rebalancer
        host.add_metrics(
            lambda: self.plane.samples() if self.plane is not None else (),
            lambda: self.plane.histograms() if self.plane is not None else (),
        )
        if host.flow_control is not None:
            host.flow_control.follow_controllers(lambda: self.plane.manager.lag if self.plane is not None else 0.0)

    def _serve_search(self, host: ApiServer, proxy: MemberProxy, clock: Clock) -> None:
        search = SearchApi(
            lambda: self.plane.search if self.plane is not None else None,
            host.catalogue,
            forward=proxy.forward_path,
            handle_locally=host.handler.handle,
            check_access=host.handler.check_access if self.profile.search_needs_read_access else allow_access,
            body_worker=host.handler.body_worker,
            now=clock.now,
        )
        for served in served_search_resources():
            host.catalogue.add(served)
        host.handler.add_resource(f"search.{SEARCH_GROUP}", search.search)
        host.handler.add_resource(f"proxying.{SEARCH_GROUP}", search.proxy)

    def _known_capacity(self, cluster: str, models: Sequence[ResourceModel]) -> CapacitySummary | None:
        """The capacity of a lean member, which has no pods that could be counted."""
        member = self.world.members.get(cluster)
        return member.capacity(models) if isinstance(member, LeanMember) else None

    async def _preview_rebalancer(self, raw: Raw) -> Raw:
        """The rebalancer with its plan as status; without a control plane there is none."""
        if self.plane is None:
            return raw
        plane = self.plane.state
        state = state_in_cache(self.plane.cache, plane.clock.now(), self.profile, self.settings)
        status = await self._plans.run("", lambda: preview_status(raw["spec"], state()))
        return {**raw, "status": msgspec.to_builtins(status)}

    def _connect(self, cluster: Cluster) -> Client | None:
        member = self.world.members.get(cluster.name)
        if member is None or cluster.spec.api_endpoint != self.endpoint(member.name):
            return None
        return self._wrap_client(member.client, member.name)

    def _find_server(self, name: str) -> ServeRequest | KubeClient | None:
        """The API server of a cluster."""
        stored = self.host.store.get(object_key("cluster.karmada.io", "clusters", name))
        if stored is None:
            raise api_errors.not_found("clusters", "cluster.karmada.io", name)
        cluster = cast("Cluster", kind_of(Cluster).decode(orjson.loads(stored.value)))
        if self._connect(cluster) is not None:
            return self.world[name].handle
        member = self.plane.roster.get(name) if self.plane is not None else None
        return member.client if member is not None and isinstance(member.client, KubeClient) else None

    def simulated_members(self) -> frozenset[str]:
        return frozenset(member.name for member in self.world)

    async def inject_fault(self, name: str, fails: bool) -> None:
        """Take a simulated member down, or end every fault of it."""
        self.faults.inject(name, FaultRequest(state="down" if fails else "recover"))

    async def start(self) -> None:
        """Start members and control plane; the host must be running."""
        await self.world.start()
        for member in self.world:
            await self.join(member.plan)
        await self.start_plane()

    async def start_plane(self) -> None:
        self.plane = self._make_plane(self._wrap_client(LocalClient(self.host), ""))
        await self.plane.start()

    async def stop_plane(self) -> None:
        if self.plane is not None:
            await self.plane.stop()
            self.plane = None

    def endpoint(self, member: str) -> str:
        return self.endpoints.get(member) or endpoint_of(member)

    def make_agent(self, member: str) -> ControlPlane:
        """The controllers of the agent of a Pull member."""
        return self._make_plane(
            self._wrap_client(LocalClient(self.host), ""),
            settings={**self.settings, "agent": member},
            notify=None,
            is_enabled=lambda controller: controller.name in AGENT_CONTROLLERS,
            state_file=None,
        )

    async def join(self, plan: MemberPlan, further_spec: Raw | None = None) -> None:
        """Register a simulated member, unless it exists in the stored state."""
        cluster = {
            "apiVersion": kind_of(Cluster).api_version,
            "kind": "Cluster",
            "metadata": {"name": plan.name, "labels": dict(plan.labels)},
            "spec": {
                "syncMode": "Pull" if plan.pull else "Push",
                "apiEndpoint": self.endpoint(plan.name),
                "region": plan.region,
                "zones": list(plan.zones),
                "provider": plan.provider,
                **(further_spec or {}),
            },
        }
        with contextlib.suppress(AlreadyExists):
            await self.client.create(resource_of(kind_of(Cluster)), cluster, manager="trimtab-up")

    async def stop(self) -> None:
        await self.faults.stop()
        await self.stop_plane()
        await self.world.stop()


def allow_access(request: Request, target: RequestInfo) -> None:
    """Require nothing more of the caller."""


def endpoint_of(member: str) -> str:
    """The endpoint of a simulated member: never dialled, it identifies the member in this process."""
    return f"https://{member}{SIMULATED_SUFFIX}"
