"""One simulated member cluster: API server, controllers, pod scheduler and kubelets, with fault injection."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path

from trimtab.api.kinds.disruption import PriorityOrder
from trimtab.api.kinds.native.lease import Lease
from trimtab.api.kinds.native.namespace import Namespace
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.kinds.native.scheduling import PriorityClass
from trimtab.api.kinds.native.storage import PersistentVolumeClaim
from trimtab.api.value import Raw
from trimtab.controllers import pods as inside_modules
from trimtab.controllers.pods.registry import member_controllers
from trimtab.registry import discover
from trimtab.rescheduling.drain import DrainOptions, NodeDrain
from trimtab.rescheduling.rescheduler import Rescheduler
from trimtab.runtime.cache import Cache, CacheEntry
from trimtab.runtime.manager import ControllerManager
from trimtab.runtime.view import ControlPlaneState
from trimtab.server.registry.object_reader import ComputedObjects
from trimtab.simulate import components as component_modules
from trimtab.simulate import workloads as workload_modules
from trimtab.simulate.components.certificate_signer import CertificateSigner
from trimtab.simulate.components.cluster_objects import ApiServerAddress, cluster_objects
from trimtab.simulate.components.component_statuses import component_statuses
from trimtab.simulate.components.legacy_tokens import LegacyTokens, issuer_of_legacy_tokens
from trimtab.simulate.components.namespace_objects import ROOT_CA_SETTING
from trimtab.simulate.components.registry import components
from trimtab.simulate.components.start_objects import create_start_objects
from trimtab.simulate.components.system_workloads import control_plane_node, system_objects
from trimtab.simulate.fleet import FleetPlan, MemberPlan
from trimtab.simulate.kubelet_pages import KubeletPages
from trimtab.simulate.kubelets.container_access import ContainerAccess
from trimtab.simulate.kubelets.kubelets import Kubelets, KubeletSettings
from trimtab.simulate.kubelets.node_status import NODES
from trimtab.simulate.kubelets.pod_reports import PODS
from trimtab.simulate.member_api import MemberApi
from trimtab.simulate.member_server import MemberEnvironment, disk_server, memory_server
from trimtab.simulate.metrics_server import MetricsServer
from trimtab.simulate.placeholders import Placeholders
from trimtab.simulate.scalable_kinds import watch_scalable_kinds
from trimtab.simulate.scheduling.pod_scheduler import PodScheduler
from trimtab.simulate.usage import SimulatedUsage
from trimtab.simulate.workloads.controller_events import with_events
from trimtab.simulate.workloads.nodes import LEASE_NAMESPACE, LEASE_RENEWAL
from trimtab.simulate.workloads.registry import workloads

PRELOADED_TYPES = (Lease, Namespace, PersistentVolumeClaim, PriorityClass, PriorityOrder)
"""Types that controllers read without being triggered by them: their tables are filled before controllers start."""
FIELD_MANAGER = "kube-controller-manager"
METRICS_RESOURCES = ("nodes.metrics.k8s.io", "pods.metrics.k8s.io")


class NoMemberClients:
    """The member lookup of a member cluster, which has no members of its own."""

    def get(self, cluster: str) -> None:
        return None


class SimulatedMember(MemberApi):
    """A simulated cluster, reached from outside through `client`."""

    def __init__(self, plan: MemberPlan, fleet: FleetPlan, environment: MemberEnvironment) -> None:
        discover(workload_modules)
        discover(inside_modules)
        discover(component_modules)
        self.plan = plan
        self._fleet = fleet
        self._environment = environment
        self._rng = environment.rng
        self.usage = SimulatedUsage()
        self._containers = ContainerAccess()
        computed: dict[str, ComputedObjects] = {id_: partial(self._metrics_objects, id_) for id_ in METRICS_RESOURCES}
        if environment.whole_clusters:
            computed["componentstatuses"] = partial(component_statuses, has_scheduler=fleet.scheduler != "none")
        server = (
            disk_server(environment, plan.name, computed, self._containers)
            if environment.directory
            else memory_server(environment, computed, self._containers)
        )
        super().__init__(plan.name, server)
        self.cache: Cache
        self.manager: ControllerManager
        self.pod_scheduler: PodScheduler
        self.kubelets: Kubelets
        self.metrics_server: MetricsServer | None = None
        self.rescheduler: Rescheduler
        self.placeholders: Placeholders
        self.address = ApiServerAddress("127.0.0.1", 6443, "")
        """Where clients outside of this process reach the API server."""
        self._trust_clients: Callable[[Path], None] = lambda _: None
        self._legacy_tokens: LegacyTokens | None = None
        self._signer: CertificateSigner | None = None

    def pass_client_authority_to(self, trust: Callable[[Path], None]) -> None:
        """Call this function with the certificate of the authority that signs for clients, before it signs."""
        self._trust_clients = trust

    async def start(self) -> None:
        environment, fleet = self._environment, self._fleet
        await self.server.start()
        self.cache = Cache(self._internal)
        for type_ in PRELOADED_TYPES:
            self.cache.table_of(type_)
        state = ControlPlaneState(
            cache=self.cache,
            clock=environment.clock,
            profile=environment.profile,
            members=NoMemberClients(),
            settings={ROOT_CA_SETTING: self.address.certificate},
        )
        watch_scalable_kinds(state)
        self.cache.table_of(Lease).add_listener(partial(_record_renewal, state))
        further = components.values() if environment.whole_clusters else ()
        records_events = environment.whole_clusters and fleet.records_kubelet_events
        own = [with_events(one) if records_events else one for one in workloads.values()]
        self.manager = ControllerManager(state, [*own, *member_controllers.values(), *further])
        if environment.whole_clusters:
            await self._create_cluster_objects()
        recorder = state.recorder if environment.whole_clusters else None
        shape = KubeletSettings(self.name, fleet.pace_of(self.plan), fleet.heartbeat_seconds)
        self.kubelets = Kubelets(
            self.cache,
            self.plan.node_plans(),
            shape,
            clock=environment.clock,
            rng=environment.rng,
            client=self._kubelet_client,
            containers=self._containers,
            recorder=recorder if fleet.records_kubelet_events else None,
        )
        self.pod_scheduler = PodScheduler(
            self.cache,
            clock=environment.clock,
            profile=environment.profile,
            first_fit=fleet.scheduler == "first-fit",
            recorder=recorder,
        )
        self.placeholders = Placeholders(self._internal, self.pod_scheduler)
        self.rescheduler = Rescheduler(
            self._internal,
            clock=environment.clock,
            profile=environment.profile,
            embedded=True,
            reservations=self.pod_scheduler,
        )
        self.metrics_server = MetricsServer(self.usage, lambda: self.pods, self.kubelets, environment.clock)
        self._containers.serve_pages(KubeletPages(self.cache, self.kubelets, self.usage, environment.clock).respond)
        await self.kubelets.start()
        await self.metrics_server.start()
        await self.manager.start()
        if fleet.scheduler != "none":
            await self.pod_scheduler.start()
        await self.rescheduler.start()

    async def _create_cluster_objects(self) -> None:
        """Create what every cluster has; the endpoint of the API server follows its address."""
        await create_start_objects(self._internal, self.server.catalogue, self._cluster_objects(), FIELD_MANAGER)
        issue = issuer_of_legacy_tokens(self.server.tokens, self._environment.clock.now)
        tokens = LegacyTokens(self.cache, self._internal, issue, self.address.certificate)
        await tokens.start()
        self._legacy_tokens = tokens
        if self._environment.directory is not None:  # a member in memory has no port and keeps no keys
            keys, now = self._environment.directory / self.name / "pki", self._environment.clock.now
            self._signer = CertificateSigner(self.cache, self._internal, keys, now, self._trust_clients)
            await self._signer.start()

    def _cluster_objects(self) -> Iterator[Raw]:
        yield from cluster_objects(self.address)
        if self.plan.system_workloads:
            yield from system_objects(control_plane_node(self.name))

    async def stop(self) -> None:
        if self._legacy_tokens is not None:
            self._legacy_tokens.stop()
        if self._signer is not None:
            self._signer.stop()
        await self.rescheduler.stop()
        await self.pod_scheduler.stop()
        if self.metrics_server is not None:
            await self.metrics_server.stop()
        await self.kubelets.stop()
        await self.manager.stop()
        await self.server.stop()

    async def cordon(self, node: str, *, unschedulable: bool = True) -> None:
        await self.internal_client.patch(
            NODES, "", node, {"spec": {"unschedulable": unschedulable or None}}, manager="kubectl"
        )

    async def drain(self, node: str) -> None:
        """Cordon the node and evict its pods, waiting for budgets as long as necessary."""
        options = DrainOptions(force=True, ignore_daemonsets=True, delete_emptydir_data=True)
        await NodeDrain(self.internal_client, node, clock=self._environment.clock, options=options).run()

    async def occupy_nodes(self, amounts: Mapping[str, int]) -> None:
        """Occupy so much of every node (CPU in thousandths), but not more than is free."""
        await self.placeholders.occupy_nodes(amounts)

    @property
    def pods(self) -> list[Pod]:
        """Every pod, as cached by the components of the cluster."""
        table = self.cache.table(PODS)
        return [table.entries[name].typed for name in table.names()]  # type: ignore[misc]

    def _metrics_objects(self, id_: str) -> Iterable[Raw]:
        """The objects of `metrics.k8s.io`; none before the cluster has started."""
        return self.metrics_server.sources()[id_]() if self.metrics_server is not None else ()

    @property
    def is_idle(self) -> bool:
        """Whether no component has anything to do."""
        return self.manager.is_idle and self.pod_scheduler.is_idle and self.kubelets.is_idle


def _record_renewal(state: ControlPlaneState, old: CacheEntry | None, new: CacheEntry | None) -> None:
    """Record when the lease of a node changed, on the clock for durations."""
    if new is not None and new.name[0] == LEASE_NAMESPACE:
        state.memory.remember(LEASE_RENEWAL, new.name[1], state.steady_clock.now())
