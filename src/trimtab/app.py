"""Assembles a control plane from the packages. The only module that knows all of them."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import msgspec
import orjson

from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import Cluster, ResourceModel
from trimtab.api.kinds.interpreter import ResourceInterpreterCustomization, ResourceInterpreterWebhookConfiguration
from trimtab.api.kinds.native.config import Secret
from trimtab.api.kinds.native.lease import Lease
from trimtab.api.kinds.native.namespace import Namespace
from trimtab.api.kinds.ocm_clusters import CLUSTER_GROUP
from trimtab.api.kinds.ocm_placement import OcmPlacement
from trimtab.api.kinds.rebalancer import WorkloadRebalancer
from trimtab.api.kinds.work import Binding, ClusterResourceBinding, ResourceBinding, Work
from trimtab.api.profile import TRIMTAB, Profile
from trimtab.api.value import Key, Raw
from trimtab.client.client import Client, resource_of
from trimtab.client.kube import KubeClient
from trimtab.client.webhook import Webhook, WebhookTarget
from trimtab.clock import Clock, SteadyClock, WallClock
from trimtab.controllers.clusters.health import HEARTBEAT, PROBE, Probe
from trimtab.controllers.clusters.ownership import LEASE_NAMESPACE, LEASE_PREFIX, RENEWED
from trimtab.controllers.clusters.served import OWNED_MEMBERS, PUSHES_ONLY, SIMULATED_SUFFIX, is_served_by
from trimtab.controllers.contract import controllers
from trimtab.controllers.propagation.customizations import SCRIPT_FAULT
from trimtab.controllers.propagation.scheduling.schedule import DECISION
from trimtab.controllers.selection import IsEnabled
from trimtab.controllers.start_order import in_start_order
from trimtab.controllers.well_known import execution_namespace, ref_of
from trimtab.decide.explain import Explanation, explain
from trimtab.decide.ocm.decision import Misconfigured
from trimtab.decide.ocm.explain import ClusterOutcome, cluster_outcomes, debug_document
from trimtab.decide.ocm.pipeline import UnlistableClusterSet
from trimtab.decide.ocm.request import OcmRequest, ocm_request_of
from trimtab.decide.ocm.snapshot import PlacementSnapshot
from trimtab.dryrun.cached_state import state_from_cache
from trimtab.dryrun.rebalancer_preview import preview_status
from trimtab.errors import AlreadyExists, NotFound
from trimtab.interpret.cel.expressions import compiler
from trimtab.interpret.interpreter import Interpreter
from trimtab.interpret.lua.questions import ScriptQuestion
from trimtab.interpret.names import binding_name
from trimtab.interpret.operations import InterpreterFailure
from trimtab.interpret.webhook_rules import WebhookRules
from trimtab.members.agent import CONTROLLERS as AGENT_CONTROLLERS
from trimtab.members.interpreter_webhooks import InterpreterWebhooks
from trimtab.members.member_client import client_from_secret
from trimtab.members.probe import CapacitySummary, KnownCapacity, Prober
from trimtab.members.proxy import MemberProxy, ServeRequest
from trimtab.members.roster import Roster
from trimtab.members.search_api import GROUP as SEARCH_GROUP
from trimtab.members.search_api import SearchApi, served_search_resources
from trimtab.members.search_cache import SearchCache
from trimtab.members.token_renewal import TokenRenewal
from trimtab.runtime.cache import Cache, CacheEntry
from trimtab.runtime.declarations import load_declarations
from trimtab.runtime.fleet_cache import fleet_from
from trimtab.runtime.fleet_metrics import FleetMetrics
from trimtab.runtime.manager import ControllerManager
from trimtab.runtime.notifications import Notifier
from trimtab.runtime.placement_snapshot import placement_snapshots_from
from trimtab.runtime.propagatable import is_propagatable
from trimtab.runtime.script_answers import ScriptAnswers, ScriptRunner
from trimtab.runtime.view import ControlPlaneState, CurrentInterpreter, ViewSources
from trimtab.server import api_errors
from trimtab.server.apiserver import ApiServer
from trimtab.server.auth.authorize import Action
from trimtab.server.local import LocalClient
from trimtab.server.request.messages import Request, Response
from trimtab.simulate.faults import FaultInjector
from trimtab.simulate.faults import action_of as fault_action
from trimtab.simulate.fleet import FleetPlan, MemberPlan
from trimtab.simulate.lean.member import LeanMember
from trimtab.simulate.world import World
from trimtab.store.keys import object_key
from trimtab.tasks import stop_tasks
from trimtab.telemetry import HistogramSeries, Sample

log = logging.getLogger("trimtab.app")
EVENT_SOURCE = "trimtab"


class ControlPlane:
    """One control plane: its cache, members, controllers and probes."""

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock | None = None,
        profile: Profile = TRIMTAB,
        settings: Mapping[str, Any] | None = None,
        connect: Callable[[Cluster], Client | None] | None = None,
        scripts: ScriptRunner | None = None,
        probe_seconds: float = 10.0,
        known_capacity: KnownCapacity = lambda _cluster, _models: None,
        is_enabled: IsEnabled = lambda _: True,
        karmada_metrics: bool = False,
        check_lease: Callable[[], None] | None = None,
        check_member: Callable[[str], None] | None = None,
        notify: WebhookTarget | None = None,
    ) -> None:
        """`scripts` runs users' scripts, such as `LuaWorker.submit`; without it they run in this process, at once.

        `check_lease` raises when this process is not the leader any more; it is called before writes in members.
        `client` has such a hook of its own. None: there is no other process.
        `check_member` does the same for the Lease of one member, where several processes share them.
        """
        load_declarations()
        self._customization_by_script: dict[str, Raw] = {}
        self._connect = connect
        self._check_lease = check_lease
        self._check_member = check_member
        self.cache = Cache(client)
        clock = clock or WallClock()
        self.roster = Roster(self.cache, self._connect_member, self._member_changed)
        self._interpreter = CurrentInterpreter(Interpreter.of(profile=cast("Any", profile.name)))
        self._steady_clock = SteadyClock(clock)
        self._scripts = ScriptAnswers(
            scripts,
            steady_seconds=self._steady_seconds,
            on_failure=self._script_failed,
            call_webhook=InterpreterWebhooks(self._service).call,
        )
        self.state = ControlPlaneState(
            cache=self.cache,
            clock=clock,
            profile=profile,
            members=self.roster,
            settings=dict(settings or {}),
            writes_exact_versions=check_lease is not None or check_member is not None,
            sources=ViewSources(
                interpreter=self._interpreter,
                fleet=fleet_from(self.cache),
                placement_snapshots=placement_snapshots_from(self.cache),
                cel=compiler(),
                scripts=self._scripts,
            ),
        )
        self._customizations = self.cache.table_of(ResourceInterpreterCustomization)
        self._webhook_configurations = self.cache.table_of(ResourceInterpreterWebhookConfiguration)
        self._customizations.add_listener(self._customizations_changed)
        self._webhook_configurations.add_listener(self._customizations_changed)
        if not self.state.settings.get("agent"):
            self.cache.table_of(Secret)  # the credentials of members; an agent has those of its own cluster
        self.cache.table_of(Namespace)
        self.cache.table_of(Lease).add_listener(self._lease_changed)
        self.manager = ControllerManager(
            self.state, [c for c in in_start_order(controllers.values()) if is_enabled(c)], propagatable=is_propagatable
        )
        self._prober = Prober(
            self.roster,
            self.cache,
            clock,
            self._record_probe,
            is_probed=self._is_probed,
            period=probe_seconds,
            counts_nodes=profile.capacity_from_nodes,
            known_capacity=known_capacity,
        )
        self._probing: asyncio.Task[None] | None = None
        self._token_renewal = TokenRenewal(client, clock, self._clusters, self._secret, self._member_client)
        self.search = None if self.state.settings.get("agent") else SearchCache(self.cache, self._connect_for_search)
        self._fleet_metrics = FleetMetrics(self.cache, clock)
        self._karmada_metrics = karmada_metrics
        self._webhook = Webhook(notify) if notify is not None else None
        self._notifier = (
            Notifier(self.cache, clock, self._webhook.send, EVENT_SOURCE) if self._webhook is not None else None
        )

    def _steady_seconds(self) -> float:
        return self._steady_clock.now().timestamp()

    async def start(self) -> None:
        await self.manager.start()
        self._watch_changes()
        self._probing = asyncio.get_running_loop().create_task(self._prober.run(), name="probe")

    def _watch_changes(self) -> None:
        """Observe what changes from now on, for metrics and notifications."""
        self._fleet_metrics.watch()
        if self._webhook is not None and self._notifier is not None:
            self._webhook.start()
            self._notifier.watch()

    async def run(self) -> None:
        """Start, and run until cancelled; also renews the tokens of members."""
        self._probing = asyncio.get_running_loop().create_task(self._prober.run(), name="probe")
        renewing = asyncio.get_running_loop().create_task(self._token_renewal.run(), name="token renewal")
        try:
            await self.manager.run(self._watch_changes)
        finally:
            renewing.cancel()
            await self.stop()

    async def stop(self) -> None:
        if self._probing is not None:
            await stop_tasks([self._probing], log)
        await self.manager.stop()
        if self._webhook is not None:
            await self._webhook.close()
        await self._scripts.close()
        if self.search is not None:
            await self.search.close()
        await self.roster.close()

    @property
    def is_idle(self) -> bool:
        return self.manager.is_idle

    @property
    def is_ready(self) -> bool:
        return self.manager.started

    def samples(self) -> Iterator[Sample]:
        """The metrics of the control plane and of its fleet."""
        yield from self.manager.samples()
        yield from self._fleet_metrics.samples()
        for result, count in self._webhook.counts.items() if self._webhook is not None else ():
            yield Sample("trimtab_notifications_total", count, {"result": result})
        if self._karmada_metrics:
            yield from self._fleet_metrics.karmada_samples()

    def histograms(self) -> Iterator[HistogramSeries]:
        return self._fleet_metrics.histograms()

    def _connect_member(self, cluster: Cluster) -> Client | None:
        if not is_served_by(cluster, self.state.settings.get("agent", "")):
            return None  # only its own agent connects to a Pull cluster, and an agent connects to no other cluster
        if self.state.settings.get(PUSHES_ONLY) and cluster.name not in self.state.settings[OWNED_MEMBERS]:
            return None
        if self._connect is not None and (client := self._connect(cluster)) is not None:
            return client
        check = partial(self._check_member, cluster.name) if self._check_member is not None else self._check_lease
        return client_from_secret(cluster, self._secret, check)

    def _serves(self, cluster: Cluster) -> bool:
        """Whether this process probes the cluster and writes to it."""
        owned = self.state.settings.get(OWNED_MEMBERS)
        is_owned = owned is None or cluster.name in owned
        return is_owned and is_served_by(cluster, self.state.settings.get("agent", ""))

    def push_members(self) -> list[str]:
        """The names of all Push clusters."""
        return [cluster.name for cluster in self._all_clusters() if is_served_by(cluster, "")]

    def start_serving(self, member: str) -> None:
        """Connect to a member whose Lease this process holds now, and reconcile everything in it."""
        self._own({*self.state.settings[OWNED_MEMBERS], member})
        entry = self.cache.table_of(Cluster).entries.get(("", member))
        if entry is not None:
            self.roster.retry_connection(cast("Cluster", entry.typed))
        self.manager.enqueue("health", cluster_key(member))
        namespace = execution_namespace(member)
        for space, name in self.cache.table_of(Work).names():
            if space == namespace:
                self.manager.enqueue("execute", Key(kind_of(Work).id, space, name))

    async def stop_serving(self, member: str) -> None:
        """Begin nothing more in the member, and return when what is in progress has ended."""
        self._own({*self.state.settings[OWNED_MEMBERS]} - {member})
        namespace = execution_namespace(member)
        for reconciler in self.manager.member_reconcilers:
            await reconciler.queue.wait_until_done(lambda key: key.namespace == namespace)
        self.roster.disconnect(member)

    def _own(self, members: set[str]) -> None:
        cast("dict[str, Any]", self.state.settings)[OWNED_MEMBERS] = frozenset(members)

    def _all_clusters(self) -> list[Cluster]:
        return [cast("Cluster", entry.typed) for entry in self.cache.table_of(Cluster).entries.values()]

    def _connect_for_search(self, cluster: Cluster) -> Client | None:
        """A client that only reads; the search covers Pull clusters as well, if there are credentials for them."""
        if self._connect is not None and (client := self._connect(cluster)) is not None:
            return client
        return client_from_secret(cluster, self._secret, self._check_lease)

    def _is_probed(self, cluster: Cluster) -> bool:
        is_elsewhere = self._connect is None and cluster.spec.api_endpoint.endswith(SIMULATED_SUFFIX)
        return self._serves(cluster) and not is_elsewhere

    def _clusters(self) -> list[Cluster]:
        """The clusters that this process writes to."""
        return [cluster for cluster in self._all_clusters() if self._serves(cluster)]

    def _member_client(self, name: str) -> Client | None:
        member = self.roster.get(name)
        return member.client if member is not None else None

    def _secret(self, namespace: str, name: str) -> Raw | None:
        table = self.cache.find_table(kind_of(Secret).id)
        entry = table.entries.get((namespace, name)) if table is not None else None
        return entry.raw if entry else None

    def _service(self, namespace: str, name: str) -> Raw | None:
        """The Service of a webhook; only known where Services are watched, as they are when users can propagate them."""
        table = self.cache.find_table("services")
        entry = table.entries.get((namespace, name)) if table is not None else None
        return entry.raw if entry is not None else None

    def _member_changed(self, cluster: str, old: Raw | None, new: Raw | None) -> None:
        for reconciler in self.manager.member_reconcilers:
            reconciler.triggers.member_changed(cluster, old, new)

    def _customizations_changed(self, old: CacheEntry | None, new: CacheEntry | None) -> None:
        """Users' rules changed: rebuild the interpreter and reconcile everything that it interprets."""
        raws = [entry.raw for entry in self._customizations.entries.values()]
        self._customization_by_script = {script: raw for raw in raws for script in scripts_of(raw)}
        self._scripts.forget_failures()
        configurations = [entry.raw for entry in self._webhook_configurations.entries.values()]
        self._interpreter.current = Interpreter.of(
            raws,
            self._scripts,
            profile=cast("Any", self.state.profile.name),
            webhook=WebhookRules(configurations, self._scripts.webhooks) if configurations else None,
        )
        self.manager.enqueue_all("detect", "dispatch", "execute", "aggregate", "dependencies")

    def _script_failed(self, question: ScriptQuestion, failure: InterpreterFailure) -> None:
        """Report the failure in the customization that contains the script."""
        customization = self._customization_by_script.get(question.script)
        if customization is not None:
            name = customization["metadata"]["name"]
            key = Key(kind_of(ResourceInterpreterCustomization).id, "", name)
            failure = InterpreterFailure(failure.reason, f"{question.hook}: {failure.message}")
            self.state.memory.remember(SCRIPT_FAULT, (name, question.script), failure, key)
            self.manager.enqueue("customizations", key)

    def _lease_changed(self, old: CacheEntry | None, new: CacheEntry | None) -> None:
        """Record when the agent of a Pull cluster renewed its Lease, by the local clock for durations."""
        if new is not None and new.name[0] == "karmada-cluster":
            cluster = new.name[1]
            self.state.memory.remember(HEARTBEAT, cluster, self.state.steady_clock.now(), cluster_key(cluster))
        if new is not None and new.name[0] == self.state.settings.get(LEASE_NAMESPACE):
            member = new.name[1].removeprefix(LEASE_PREFIX)
            self.state.memory.remember(RENEWED, member, self.state.steady_clock.now(), cluster_key(member))

    def _record_probe(self, cluster: str, probe: Probe) -> None:
        self.state.memory.remember(PROBE, cluster, probe, cluster_key(cluster))
        self.manager.enqueue("health", cluster_key(cluster))
        for namespace, name in dict.fromkeys((pod.namespace, pod.deployment) for pod in probe.unschedulable_pods):
            key = Key(kind_of(ResourceBinding).id, namespace, binding_name("Deployment", name))
            self.manager.enqueue("unschedulable_replicas", key)


def cluster_key(name: str) -> Key:
    return Key(kind_of(Cluster).id, "", name)


def scripts_of(customization: Raw) -> list[str]:
    rules = (customization.get("spec") or {}).get("customizations") or {}
    return [rule["luaScript"] for rule in rules.values() if isinstance(rule, dict) and rule.get("luaScript")]


DEBUG_VERBS = {"GET": "get", "POST": "create"}
MAX_PLACEMENT_BYTES = 1 << 20


def debug_action(request: Request) -> Action | None:
    """The permission that a debug page of a Placement needs: get for the stored one, create for another."""
    page, *names = request.path.strip("/").split("/")[1:] or [""]
    if page != "placements" or len(names) != 2 or request.method not in DEBUG_VERBS:
        return None
    return Action(DEBUG_VERBS[request.method], CLUSTER_GROUP, "placements", namespace=names[0], name=names[1])


def debug_error(code: int, text: str) -> Response:
    """An error in the format of Open Cluster Management's debug server."""
    return Response(code, orjson.dumps({"error": text}))


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
        is_enabled: IsEnabled = lambda _: True,
    ) -> None:
        """`wrap_client` wraps the clients of the control plane: one for the host (cluster is empty), one per member."""
        load_declarations()
        self._wrap_client = wrap_client
        self.profile = profile
        self.settings = dict(settings or {})
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
            is_enabled=is_enabled,
        )
        self.plane: ControlPlane | None = None
        self.endpoints: dict[str, str] = {}
        """Addresses at which clients outside of this process reach members; the control plane does not dial them."""
        self.faults = FaultInjector(self.world)
        self._extend_host(clock)

    def _extend_host(self, clock: Clock) -> None:
        """Serve what only a fleet in one process has: proxies to members, search, faults, debug pages, its metrics."""
        host = self.host
        proxy = MemberProxy(self._find_server)
        host.handler.add_subresource(kind_of(Cluster).id, "proxy", proxy.forward)
        self._serve_search(host, proxy, clock)
        host.nonresource_paths.add_page("simulation", self.faults.handle, fault_action)
        host.nonresource_paths.add_page("debug", self._debug_page, debug_action)
        host.resource_store.dry_run_previews[kind_of(WorkloadRebalancer).id] = self._preview_rebalancer
        host.add_metrics(
            lambda: self.plane.samples() if self.plane is not None else (),
            lambda: self.plane.histograms() if self.plane is not None else (),
        )

    def _serve_search(self, host: ApiServer, proxy: MemberProxy, clock: Clock) -> None:
        search = SearchApi(
            lambda: self.plane.search if self.plane is not None else None,
            host.catalogue,
            forward=proxy.forward_path,
            handle_locally=host.handler.handle,
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
        state = state_from_cache(self.plane.cache, plane.clock.now(), self.profile, self.settings)
        status = await asyncio.to_thread(preview_status, raw["spec"], state)
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

    def _debug_page(self, request: Request) -> Response:
        """`/debug/bindings/NAMESPACE/NAME` and `/debug/placements/NAMESPACE/NAME`: explains the last decision.

        `/debug/profile` is the name of the profile.
        """
        page, *names = request.path.strip("/").split("/")[1:] or [""]
        if page == "profile" and not names and request.method == "GET":
            return Response(200, orjson.dumps({"profile": self.profile.name}))
        if page == "placements":
            return self._debug_placement(request, names)
        if request.method != "GET":
            raise api_errors.no_such_method()
        resource = "clusterresourcebindings" if len(names) == 1 else "resourcebindings"
        stored = self.host.store.get(object_key("work.karmada.io", resource, *names))
        if page != "bindings" or stored is None or self.plane is None:
            raise NotFound("there is no such binding")
        raw = orjson.loads(stored.value)
        type_ = kind_of(ClusterResourceBinding if len(names) == 1 else ResourceBinding)
        explanation = self.last_decision(cast("Binding", type_.decode(raw)))
        if explanation is None:
            raise NotFound("no decision about this binding is in memory")
        return Response(200, msgspec.json.encode(explanation))

    def last_decision(self, binding: Binding) -> Explanation | None:
        """Explains the last decision about a binding; None when this process has made none."""
        decision = self.plane.state.memory.recall(DECISION, ref_of(binding)) if self.plane is not None else None
        return None if decision is None else explain(decision)

    def simulated_members(self) -> frozenset[str]:
        return frozenset(member.name for member in self.world)

    def failed_members(self) -> frozenset[str]:
        """The simulated members that were cut off."""
        return frozenset(member.name for member in self.world if not member.is_reachable)

    async def inject_fault(self, name: str, fails: bool) -> None:
        """Cut a simulated member off, or restore it."""
        member = self.world.members.get(name)
        if member is None:
            raise NotFound(f"there is no simulated member {name}")
        if fails:
            member.stop_api()
        else:
            member.start_api()

    def _debug_placement(self, request: Request, names: list[str]) -> Response:
        """`/debug/placements/NAMESPACE/NAME`: each step of the decision, as Open Cluster Management shows it.

        GET explains the stored Placement, POST the one in the body, which is not stored.
        """
        if request.method not in DEBUG_VERBS:
            return debug_error(405, f"method {request.method} is not allowed")
        if len(names) != 2 or self.plane is None:
            return debug_error(400, "the path must be /debug/placements/NAMESPACE/NAME")
        namespace, name = names
        stored = self.host.store.get(object_key(CLUSTER_GROUP, "placements", namespace, name))
        if request.method == "GET" and stored is None:
            return debug_error(404, f"placement '{name}' not found")
        body = stored.value if request.method == "GET" and stored is not None else request.body
        if len(body) > MAX_PLACEMENT_BYTES:
            return debug_error(400, "the body is larger than 1 MiB")
        try:
            placement = cast("OcmPlacement", kind_of(OcmPlacement).decode(orjson.loads(body)))
        except (ValueError, msgspec.MsgspecError) as fault:
            return debug_error(400, f"the body is not a Placement: {fault}")
        placement = placement.but(metadata=placement.metadata.but(namespace=namespace, name=name))
        ocm_request, snapshot = self._ocm_request(self.plane, placement)
        return Response(200, msgspec.json.encode(debug_document(placement, ocm_request, snapshot)))

    def _ocm_request(self, plane: ControlPlane, placement: OcmPlacement) -> tuple[OcmRequest, PlacementSnapshot]:
        state = plane.state
        snapshot = state.sources.placement_snapshots.snapshot(state.clock.now())
        uses_spread_policy = state.profile.placements_obey_spread_policy
        request = ocm_request_of(placement, snapshot, state.sources.cel, uses_spread_policy=uses_spread_policy)
        return request, snapshot

    def placement_outcomes(self, placement: OcmPlacement) -> list[ClusterOutcome]:
        """What the decision about a Placement says about each cluster; empty when it cannot be made."""
        if self.plane is None:
            return []
        try:
            return cluster_outcomes(*self._ocm_request(self.plane, placement))
        except (UnlistableClusterSet, Misconfigured):
            return []

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


def endpoint_of(member: str) -> str:
    """The endpoint of a simulated member: never dialled, it identifies the member in this process."""
    return f"https://{member}{SIMULATED_SUFFIX}"
