"""Assembles a control plane from the packages. The only module that knows all of them."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.native.config import Secret
from trimtab.api.kinds.native.lease import Lease
from trimtab.api.kinds.native.namespace import Namespace
from trimtab.api.kinds.work import ResourceBinding, Work
from trimtab.api.profile import TRIMTAB, Profile
from trimtab.api.value import Key, Raw
from trimtab.client.client import Client
from trimtab.client.otlp import TraceTarget
from trimtab.client.webhook import WebhookTarget
from trimtab.clock import Clock, SteadyClock, WallClock
from trimtab.controllers.clusters.health import HEARTBEAT, PROBE, REPORTED_PROBE, Probe, is_settled_probe
from trimtab.controllers.clusters.ownership import LEASE_NAMESPACE, LEASE_PREFIX, RENEWED
from trimtab.controllers.clusters.served import PUSHES_ONLY
from trimtab.controllers.contract import controllers
from trimtab.controllers.propagation.customizations import SCRIPT_FAULT
from trimtab.controllers.selection import RESUMED, RUNNING, IsEnabled
from trimtab.controllers.start_order import in_start_order
from trimtab.controllers.well_known import execution_namespace
from trimtab.interpret.cel.expressions import compiler
from trimtab.interpret.names import binding_name
from trimtab.interpret.operations import InterpreterFailure
from trimtab.members.agent_approval import AgentApproval
from trimtab.members.interpreter_webhooks import InterpreterWebhooks
from trimtab.members.probe import KnownCapacity, Prober
from trimtab.members.roster import Roster
from trimtab.members.search_cache import SearchCache
from trimtab.members.served_members import ServedMembers
from trimtab.members.token_renewal import TokenRenewal
from trimtab.observability import Observability, ObservabilitySettings
from trimtab.runtime.cache import Cache, CacheEntry
from trimtab.runtime.customized_interpreter import CustomizedInterpreter
from trimtab.runtime.declarations import load_declarations
from trimtab.runtime.decoded_entries import DecodedEntries
from trimtab.runtime.fleet_cache import fleet_from
from trimtab.runtime.manager import ControllerManager
from trimtab.runtime.placement_snapshot import placement_snapshots_from
from trimtab.runtime.propagatable import ALL_KINDS, KindSelection, is_propagatable
from trimtab.runtime.saved_state import HOST
from trimtab.runtime.saved_tables import SavedPart
from trimtab.runtime.script_answers import ScriptRunner
from trimtab.runtime.state_file import StateFile
from trimtab.runtime.view import ControlPlaneState, ViewSources
from trimtab.tasks import stop_tasks
from trimtab.telemetry import HistogramSeries, Sample

log = logging.getLogger("trimtab.app")


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
        check_release: Callable[[], None] | None = None,
        notify: WebhookTarget | None = None,
        trace: TraceTarget | None = None,
        kinds: KindSelection = ALL_KINDS,
        state_file: Path | None = None,
    ) -> None:
        """`scripts` runs users' scripts, such as `LuaWorker.submit`; without it they run in this process, at once.

        `check_lease` raises when this process is not the leader any more; it is called before writes in members.
        `client` has such a hook of its own. None: there is no other process.
        `check_member` does the same for the Lease of one member, where several processes share them.
        `check_release` raises when it is not known whether the host allows writes in members.
        `kinds` are those that may be propagated; others are not even read.
        `state_file` is written when the control plane stops and read when it starts, so that it works on what has changed.
        """
        load_declarations()
        clock = clock or WallClock()
        running = [one for one in in_start_order(controllers.values()) if is_enabled(one)]
        own_settings = {**(settings or {}), RUNNING: frozenset(one.name for one in running)}
        self._state_file = StateFile(state_file, profile, own_settings, own_settings[RUNNING])
        own_settings[RESUMED] = self._state_file.is_resumed
        self.cache = Cache(client, decoded=DecodedEntries(), saved=self._state_file.tables_of_host())
        self._served = ServedMembers(self.cache, own_settings, connect, check_lease, check_member, check_release)
        self.roster = Roster(self.cache, self._served.connect, self._member_changed, self._state_file.tables_of_member)
        self._steady_clock = SteadyClock(clock)
        self._customized = self._new_interpreter(profile, scripts)
        self.state = self._new_state(clock, profile, own_settings, shares_members=bool(check_lease or check_member))
        self.observability = Observability(
            self.state, ObservabilitySettings(karmada_metrics=karmada_metrics, notify=notify, trace=trace)
        )
        is_agent = bool(own_settings.get("agent"))
        self._follow_host(is_agent=is_agent)
        self.manager = ControllerManager(
            self.state,
            running,
            propagatable=lambda resource: is_propagatable(resource) and kinds.includes(resource),
            saved_queues=self._state_file.queues,
            on_stop=self._save_state,
        )
        self._prober = Prober(
            self.roster,
            self.cache,
            clock,
            self._record_probe,
            is_probed=self._served.is_probed,
            period=probe_seconds,
            counts_nodes=profile.capacity_from_nodes,
            known_capacity=known_capacity,
            observe=self.observability.observe_probe,
        )
        self._probing: asyncio.Task[None] | None = None
        self._token_renewal = TokenRenewal(
            client, clock, self._served.clusters, self._served.secret, self._member_client
        )
        decides = not is_agent and not own_settings.get(PUSHES_ONLY)
        self._agent_approval = AgentApproval(client, clock) if decides else None
        self.search = None if is_agent else SearchCache(self.cache, self._served.connect_for_search)

    def _new_interpreter(self, profile: Profile, scripts: ScriptRunner | None) -> CustomizedInterpreter:
        return CustomizedInterpreter(
            self.cache,
            profile,
            scripts,
            steady_seconds=self._steady_seconds,
            call_webhook=InterpreterWebhooks(self._service).call,
            on_change=self._interpreter_changed,
            on_script_failure=self._script_failed,
        )

    def _new_state(
        self, clock: Clock, profile: Profile, settings: dict[str, Any], *, shares_members: bool
    ) -> ControlPlaneState:
        """What all reconcilers share; `shares_members` means that other processes may write the same objects."""
        sources = ViewSources(
            interpreter=self._customized.interpreter,
            fleet=fleet_from(self.cache, follows_health=bool(settings.get("overcommit-protection"))),
            placement_snapshots=placement_snapshots_from(self.cache),
            cel=compiler(),
            scripts=self._customized.scripts,
        )
        return ControlPlaneState(
            cache=self.cache,
            clock=clock,
            profile=profile,
            members=self.roster,
            settings=settings,
            writes_exact_versions=shares_members,
            sources=sources,
        )

    def _follow_host(self, *, is_agent: bool) -> None:
        """Watch what the control plane itself reads on the host, besides what its controllers watch."""
        self._customized.watch()
        if not is_agent:
            self.cache.table_of(Secret)  # the credentials of members; an agent has those of its own cluster
        self.cache.table_of(Namespace)
        self.cache.table_of(Lease).add_listener(self._lease_changed)

    def _steady_seconds(self) -> float:
        return self._steady_clock.now().timestamp()

    async def start(self) -> None:
        await self.manager.start()
        self.observability.start()
        self._probing = asyncio.get_running_loop().create_task(self._prober.run(), name="probe")

    async def run(self) -> None:
        """Start, and run until cancelled; also renews the tokens of members and approves certificates of agents."""
        create_task = asyncio.get_running_loop().create_task
        self._probing = create_task(self._prober.run(), name="probe")
        tasks = [create_task(self._token_renewal.run(), name="token renewal")]
        if self._agent_approval is not None:
            tasks.append(create_task(self._agent_approval.run(), name="approval of agents"))
        try:
            await self.manager.run(self.observability.start)
        finally:
            await stop_tasks(tasks, log)
            await self.stop()

    async def stop(self) -> None:
        if self._probing is not None:
            await stop_tasks([self._probing], log)
        await self.manager.stop()
        await self.observability.close()
        await self._customized.scripts.close()
        if self.search is not None:
            await self.search.close()
        await self.roster.close()

    def _save_state(self) -> None:
        """Leave what this process knows to the next one."""
        if not self._state_file.is_written or not self._customized.scripts.is_idle:
            return  # a key that waits for a script is in no queue
        members = self.roster.addresses()
        tables = [(HOST, self.cache.save()), *((name, self._tables_of_member(name)) for name in members)]
        self._state_file.write(self.manager.save_queues(), members, tables)

    def _tables_of_member(self, name: str) -> Iterator[SavedPart]:
        member = self.roster.get(name)
        return member.save() if member is not None else iter(())

    @property
    def is_idle(self) -> bool:
        return self.manager.is_idle

    @property
    def is_ready(self) -> bool:
        return self.manager.started

    def samples(self) -> Iterator[Sample]:
        """The metrics of the control plane and of its fleet."""
        yield from self.manager.samples()
        yield from self.observability.fleet_samples()
        yield from self.observability.reconcile_samples()

    def histograms(self) -> Iterator[HistogramSeries]:
        yield from self.observability.fleet_histograms()
        yield from self.reconcile_histograms()

    def reconcile_histograms(self) -> Iterator[HistogramSeries]:
        """How long the reconciles of each controller took."""
        yield from self.manager.histograms()
        yield from self.observability.reconcile_histograms()

    def push_members(self) -> list[str]:
        """The names of all Push clusters."""
        return self._served.push_members()

    def start_serving(self, member: str) -> None:
        """Connect to a member whose Lease this process holds now, and reconcile everything in it."""
        self._served.own(member)
        entry = self.cache.table_of(Cluster).entries.get(("", member))
        if entry is not None:
            self.roster.retry_connection(cast("Cluster", entry.typed))
        self.manager.enqueue("health", cluster_key(member))
        namespace = execution_namespace(member)
        for name in self.cache.table_of(Work).names(namespace):
            self.manager.enqueue("execute", Key(kind_of(Work).id, *name))

    async def stop_serving(self, member: str) -> None:
        """Begin nothing more in the member, and return when what is in progress has ended."""
        self._served.disown(member)
        namespace = execution_namespace(member)
        for reconciler in self.manager.member_reconcilers:
            await reconciler.queue.wait_until_done(lambda key: key.namespace == namespace)
        self.roster.disconnect(member)

    def _member_client(self, name: str) -> Client | None:
        member = self.roster.get(name)
        return member.client if member is not None else None

    def _service(self, namespace: str, name: str) -> Raw | None:
        """The Service of a webhook; only known where Services are watched, as they are when users can propagate them."""
        table = self.cache.find_table("services")
        entry = table.entries.get((namespace, name)) if table is not None else None
        return entry.raw if entry is not None else None

    def _member_changed(self, cluster: str, old: Raw | None, new: Raw | None) -> None:
        for reconciler in self.manager.member_reconcilers:
            reconciler.triggers.member_changed(cluster, old, new)

    def _interpreter_changed(self) -> None:
        """Users' rules changed: reconcile everything that the interpreter interprets."""
        self.manager.enqueue_all("detect", "dispatch", "execute", "aggregate", "dependencies")

    def _script_failed(self, customization: Key, script: str, failure: InterpreterFailure) -> None:
        """Report the failure in the customization that contains the script."""
        self.state.memory.remember(SCRIPT_FAULT, (customization.name, script), failure, customization)
        self.manager.enqueue("customizations", customization)

    def _lease_changed(self, old: CacheEntry | None, new: CacheEntry | None) -> None:
        """Record when the agent of a Pull cluster renewed its Lease, by the local clock for durations."""
        if new is not None and new.name[0] == "karmada-cluster":
            cluster = new.name[1]
            self.state.memory.remember(HEARTBEAT, cluster, self.state.steady_clock.now(), cluster_key(cluster))
        if new is not None and new.name[0] == self.state.settings.get(LEASE_NAMESPACE):
            member = new.name[1].removeprefix(LEASE_PREFIX)
            self.state.memory.remember(RENEWED, member, self.state.steady_clock.now(), cluster_key(member))

    def _record_probe(self, cluster: str, probe: Probe) -> None:
        key, memory = cluster_key(cluster), self.state.memory
        memory.remember(PROBE, cluster, probe, key)
        entry = self.cache.table_of(Cluster).entries.get(("", cluster))
        known = cast("Cluster", entry.typed) if entry is not None else None
        skips = self.state.profile.skip_empty_steps
        if not skips or known is None or not is_settled_probe(memory.recall(REPORTED_PROBE, cluster), probe, known):
            version = known.metadata.resource_version if known is not None else ""
            memory.remember(REPORTED_PROBE, cluster, (probe.findings, version), key)
            self.manager.enqueue("health", key)
        for namespace, name in dict.fromkeys((pod.namespace, pod.deployment) for pod in probe.unschedulable_pods):
            key = Key(kind_of(ResourceBinding).id, namespace, binding_name("Deployment", name))
            self.manager.enqueue("unschedulable_replicas", key)


def cluster_key(name: str) -> Key:
    return Key(kind_of(Cluster).id, "", name)
