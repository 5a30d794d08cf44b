"""One simulated member cluster: API server, controllers, pod scheduler and kubelets, with fault injection."""

import contextlib
import random
import secrets
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, cast
from uuid import UUID

from trimtab.api.kind import Kind
from trimtab.api.kinds.disruption import PriorityOrder
from trimtab.api.kinds.native.admission_policy import ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding
from trimtab.api.kinds.native.api_registration import ApiService
from trimtab.api.kinds.native.certificates import CertificateSigningRequest
from trimtab.api.kinds.native.lease import Lease
from trimtab.api.kinds.native.namespace import Namespace
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.kinds.native.scheduling import PriorityClass
from trimtab.api.kinds.native.storage import PersistentVolumeClaim
from trimtab.api.profile import Profile
from trimtab.api.quantity import from_milli
from trimtab.api.value import Raw
from trimtab.client.client import Resource
from trimtab.clock import Clock
from trimtab.controllers import pods as inside_modules
from trimtab.controllers.pods.registry import member_controllers
from trimtab.errors import AlreadyExists, NotFound
from trimtab.registry import discover
from trimtab.rescheduling.drain import DrainOptions, NodeDrain
from trimtab.rescheduling.rescheduler import Rescheduler
from trimtab.runtime.cache import Cache, CacheEntry
from trimtab.runtime.manager import ControllerManager
from trimtab.runtime.view import ControlPlaneState
from trimtab.server.admission.chain import AdmissionPlugin
from trimtab.server.admission.default_storage_class import DefaultStorageClass
from trimtab.server.admission.member_budget_defaults import MemberBudgetDefaults
from trimtab.server.admission.object_quotas import ObjectQuotaCheck
from trimtab.server.admission.priority_quota import PriorityQuotaCheck
from trimtab.server.admission.service_accounts import ServiceAccountAdmission
from trimtab.server.admission.service_calls import ServerAnswer
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.auth.certificates import write_secret
from trimtab.server.flowcontrol.controller import FlowController
from trimtab.server.registry.object_reader import ComputedObjects
from trimtab.server.storage.formats import open_store
from trimtab.server.subresources.pod_runtime import LogLine, PodRuntime
from trimtab.simulate import components as component_modules
from trimtab.simulate import workloads as workload_modules
from trimtab.simulate.components.certificate_signer import CertificateSigner
from trimtab.simulate.components.cluster_objects import ApiServerAddress, cluster_objects
from trimtab.simulate.components.component_statuses import component_statuses
from trimtab.simulate.components.legacy_tokens import LegacyTokens, issuer_of_legacy_tokens
from trimtab.simulate.components.namespace_objects import ROOT_CA_SETTING
from trimtab.simulate.components.registry import components
from trimtab.simulate.components.system_workloads import control_plane_node, system_objects
from trimtab.simulate.containers.connections import Receive, Send
from trimtab.simulate.fleet import FleetPlan, MemberPlan, NodePlan
from trimtab.simulate.kubelets.behaviour import BehaviourOverride
from trimtab.simulate.kubelets.kubelets import Kubelets, KubeletSettings
from trimtab.simulate.kubelets.node_status import NODES
from trimtab.simulate.kubelets.pod_reports import PODS
from trimtab.simulate.member_api import MemberApi
from trimtab.simulate.metrics_server import MetricsServer
from trimtab.simulate.scalable_kinds import watch_scalable_kinds
from trimtab.simulate.scheduling.pod_scheduler import PodScheduler
from trimtab.simulate.usage import SimulatedUsage
from trimtab.simulate.workloads.nodes import LEASE_NAMESPACE, LEASE_RENEWAL
from trimtab.simulate.workloads.registry import workloads
from trimtab.store.index import Retention
from trimtab.store.store import Store

RETENTION = Retention(revisions=4_000, seconds=60.0, superseded_bytes=1024 * 1024, cached_events=32)
"""A fleet in one process cannot afford a long history per member."""
PRELOADED_TYPES = (Lease, Namespace, PersistentVolumeClaim, PriorityClass, PriorityOrder)
"""Types that controllers read without being triggered by them: their tables are filled before controllers start."""
PLACEHOLDER_LABEL = "simulate.trimtab.dev/placeholder"
FIELD_MANAGER = "kube-controller-manager"
KINDS_OF_WHOLE_CLUSTERS = (
    ApiService,
    CertificateSigningRequest,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
)
METRICS_RESOURCES = ("nodes.metrics.k8s.io", "pods.metrics.k8s.io")


class NoMemberClients:
    """The member lookup of a member cluster, which has no members of its own."""

    def get(self, cluster: str) -> None:
        return None


class MemberEnvironment(NamedTuple):
    """What all members of a world share."""

    clock: Clock
    profile: Profile
    rng: random.Random
    """One generator per member."""
    directory: Path | None = None
    """Directory of the members' data; None keeps it in memory."""
    whole_clusters: bool = False
    """Whether members have what every cluster has besides workloads: accounts, tokens, endpoints, volumes."""
    flow_control: FlowController | None = None
    """That of the control plane: one caller has the same share of the process, whichever API server it calls."""
    disabled_plugins: frozenset[str] = frozenset()
    """Admission plugins that the API servers leave out."""
    anonymous_auth: bool = True


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
        computed: dict[str, ComputedObjects] = {id_: partial(self._metrics_objects, id_) for id_ in METRICS_RESOURCES}
        if environment.whole_clusters:
            computed["componentstatuses"] = partial(component_statuses, has_scheduler=fleet.scheduler != "none")
        server = (
            _disk_server(environment, plan.name, computed, self)
            if environment.directory
            else _memory_server(environment, computed, self)
        )
        super().__init__(plan.name, server)
        self.cache: Cache
        self.manager: ControllerManager
        self.pod_scheduler: PodScheduler
        self.kubelets: Kubelets
        self.metrics_server: MetricsServer | None = None
        self.rescheduler: Rescheduler
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
        self.manager = ControllerManager(state, [*workloads.values(), *member_controllers.values(), *further])
        if environment.whole_clusters:
            await self._create_cluster_objects()
        shape = KubeletSettings(self.name, fleet.pace_of(self.plan), fleet.heartbeat_seconds)
        self.kubelets = Kubelets(
            self.cache,
            self.plan.node_plans(),
            shape,
            clock=environment.clock,
            rng=environment.rng,
            client=self._kubelet_client,
        )
        self.pod_scheduler = PodScheduler(
            self.cache,
            clock=environment.clock,
            profile=environment.profile,
            first_fit=fleet.scheduler == "first-fit",
            recorder=state.recorder if environment.whole_clusters else None,
        )
        self.rescheduler = Rescheduler(
            self._internal,
            clock=environment.clock,
            profile=environment.profile,
            embedded=True,
            reservations=self.pod_scheduler,
        )
        self.metrics_server = MetricsServer(self.usage, lambda: self.pods, self.kubelets, environment.clock)
        await self.kubelets.start()
        await self.metrics_server.start()
        await self.manager.start()
        if fleet.scheduler != "none":
            await self.pod_scheduler.start()
        await self.rescheduler.start()

    async def _create_cluster_objects(self) -> None:
        """Create what every cluster has; the endpoint of the API server follows its address."""
        for wanted in self._cluster_objects():
            group, _, version = wanted["apiVersion"].rpartition("/")
            served = self.server.catalogue.find_kind(wanted["apiVersion"], wanted["kind"])
            if served is None:
                continue
            resource = Resource(group, version, served.resource, wanted["kind"], served.kind.namespaced)
            metadata = wanted["metadata"]
            try:
                await self._internal.create(resource, wanted, manager=FIELD_MANAGER)
            except AlreadyExists:
                change = {key: value for key, value in wanted.items() if key in ("subsets", "endpoints", "ports")}
                if change:
                    place = metadata.get("namespace", "")
                    await self._internal.patch(resource, place, metadata["name"], change, manager=FIELD_MANAGER)
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

    # nodes

    def fail_node(self, node: str) -> None:
        self.kubelets.fail(node)

    async def recover_node(self, node: str) -> None:
        await self.kubelets.recover(node)

    async def set_node_pressure(self, node: str, resource: str, *, on: bool = True) -> None:
        """Set or clear pressure on `memory`, `disk`, `pid` or `cpu`."""
        await self.kubelets.set_pressure(node, resource, on=on)

    async def add_node(self, plan: NodePlan) -> None:
        await self.kubelets.add(plan)

    async def remove_node(self, node: str) -> None:
        await self.kubelets.remove(node)

    async def cordon(self, node: str, *, unschedulable: bool = True) -> None:
        await self.internal_client.patch(
            NODES, "", node, {"spec": {"unschedulable": unschedulable or None}}, manager="kubectl"
        )

    async def drain(self, node: str) -> None:
        """Cordon the node and evict its pods, waiting for budgets as long as necessary."""
        options = DrainOptions(force=True, ignore_daemonsets=True, delete_emptydir_data=True)
        await NodeDrain(self.internal_client, node, clock=self._environment.clock, options=options).run()

    # capacity

    async def scale_reported_capacity(self, factor: float) -> None:
        """Let every node report so many times the capacity that its kubelet admits; 1 is the actual capacity."""
        await self.kubelets.scale_reported_capacity(factor)

    async def fill_nodes(self, fraction: float = 1.0) -> None:
        """Occupy this fraction of the free capacity of every node with placeholder pods."""
        for here in list(self.pod_scheduler.fleet.nodes):
            needs = {name: int(here.free_amount(name) * fraction) for name in ("cpu", "memory")}
            if any(amount > 0 for amount in needs.values()) and here.free_pods > 0:
                with contextlib.suppress(AlreadyExists):
                    await self.internal_client.create(PODS, placeholder_pod(here.name, needs), manager="placeholder")

    async def occupy_nodes(self, amounts: Mapping[str, int]) -> None:
        """Occupy so much of every node (CPU in thousandths) with a placeholder pod, but not more than is free."""
        for here in list(self.pod_scheduler.fleet.nodes):
            needs = {name: min(amounts.get(name, 0), here.free_amount(name)) for name in ("cpu", "memory")}
            if any(amount > 0 for amount in needs.values()):
                with contextlib.suppress(AlreadyExists):
                    await self.internal_client.create(PODS, placeholder_pod(here.name, needs), manager="placeholder")

    async def delete_placeholders(self) -> None:
        """Delete the pods that `fill_nodes` and `occupy_nodes` created."""
        for pod in (await self.internal_client.list(PODS, "kube-system", labels=PLACEHOLDER_LABEL)).items:
            with contextlib.suppress(NotFound):
                await self.internal_client.delete(PODS, "kube-system", pod["metadata"]["name"], grace_seconds=0)

    # pods

    def override_behaviour(self, override: BehaviourOverride) -> None:
        """Change the behaviour of some pods (see `simulate.kubelets.behaviour`), until `remove_override`."""
        self.kubelets.override_behaviour(override)

    def remove_override(self, name: str) -> None:
        self.kubelets.remove_override(name)

    @property
    def pods(self) -> list[Pod]:
        """Every pod, as cached by the components of the cluster."""
        table = self.cache.table(PODS)
        return [table.entries[name].typed for name in table.names()]  # type: ignore[misc]

    # what clients of the API read from containers

    def read_log(self, pod: Raw, container: str, *, previous: bool) -> Sequence[LogLine]:
        return self.kubelets.read_log(pod, container, previous=previous)

    def follow_log(self, pod: Raw, container: str) -> AsyncIterator[Sequence[LogLine]]:
        return self.kubelets.follow_log(pod, container)

    async def run_command(
        self, pod: Raw, container: str, command: Sequence[str], text: str, write: Callable[[str], None]
    ) -> int:
        return await self.kubelets.run_command(pod, container, command, text, write)

    def send_input(self, pod: Raw, container: str, data: bytes | None) -> None:
        self.kubelets.send_input(pod, container, data)

    async def connect(self, pod: Raw, port: int, receive: Receive, send: Send) -> None:
        await self.kubelets.connect(pod, port, receive, send)

    def respond(self, pod: Raw, port: str, path: str, body: bytes = b"") -> ServerAnswer | None:
        return self.kubelets.respond(pod, port, path, body)

    def _metrics_objects(self, id_: str) -> Iterable[Raw]:
        """The objects of `metrics.k8s.io`; none before the cluster has started."""
        return self.metrics_server.sources()[id_]() if self.metrics_server is not None else ()

    @property
    def is_idle(self) -> bool:
        """Whether no component has anything to do."""
        return self.manager.is_idle and self.pod_scheduler.is_idle and self.kubelets.is_idle


def _memory_server(
    environment: MemberEnvironment, computed: Mapping[str, ComputedObjects], runtime: PodRuntime
) -> ApiServer:
    """An API server without persistence; uids and keys come from the seed, so runs are repeatable."""
    settings = ApiServerSettings(
        clock=environment.clock,
        new_uid=seeded_uids(environment.rng),
        token_key=environment.rng.randbytes(32),
        serves=is_served_by_whole_cluster if environment.whole_clusters else is_served_by_member,
        check_all_budgets=environment.profile.all_budgets_must_allow,
        runtime=runtime,
        api_services=environment.whole_clusters,
        object_quota_status=environment.whole_clusters,
        flow_control_objects=environment.whole_clusters,
        plugins=(MemberBudgetDefaults(),),
        store_plugins=_store_plugins(environment),
        default_tolerations="DefaultTolerationSeconds" not in environment.disabled_plugins,
        anonymous_auth=environment.anonymous_auth,
        computed=computed,
        shared_flow_control=environment.flow_control,
    )
    return ApiServer(Store(RETENTION), settings)


def _store_plugins(environment: MemberEnvironment) -> tuple[Callable[[Store], AdmissionPlugin], ...]:
    if not environment.whole_clusters:
        return (PriorityQuotaCheck,)
    of_whole_clusters: dict[str, Callable[[Store], AdmissionPlugin]] = {
        "ServiceAccount": ServiceAccountAdmission,
        "DefaultStorageClass": DefaultStorageClass,
    }
    enabled = (plugin for name, plugin in of_whole_clusters.items() if name not in environment.disabled_plugins)
    return (*enabled, PriorityQuotaCheck, ObjectQuotaCheck)


def _disk_server(
    environment: MemberEnvironment, name: str, computed: Mapping[str, ComputedObjects], runtime: PodRuntime
) -> ApiServer:
    """An API server that survives restarts: uids are random, so that none repeats, and the token key is stored."""
    directory = cast("Path", environment.directory) / name
    store = open_store(directory)
    key = directory / "service-account.key"
    if not key.exists():
        write_secret(key, secrets.token_hex(32).encode())
    return ApiServer(
        store,
        ApiServerSettings(
            clock=environment.clock,
            token_key=key.read_bytes(),
            serves=is_served_by_whole_cluster if environment.whole_clusters else is_served_by_member,
            check_all_budgets=environment.profile.all_budgets_must_allow,
            runtime=runtime,
            api_services=environment.whole_clusters,
            front_proxy=directory / "pki" / "front-proxy" if environment.whole_clusters else None,
            object_quota_status=environment.whole_clusters,
            flow_control_objects=environment.whole_clusters,
            plugins=(MemberBudgetDefaults(),),
            store_plugins=_store_plugins(environment),
            default_tolerations="DefaultTolerationSeconds" not in environment.disabled_plugins,
            anonymous_auth=environment.anonymous_auth,
            computed=computed,
            shared_flow_control=environment.flow_control,
        ),
    )


def _record_renewal(state: ControlPlaneState, old: CacheEntry | None, new: CacheEntry | None) -> None:
    """Record when the lease of a node changed, on the clock for durations."""
    if new is not None and new.name[0] == LEASE_NAMESPACE:
        state.memory.remember(LEASE_RENEWAL, new.name[1], state.steady_clock.now())


def is_served_by_whole_cluster(kind: Kind) -> bool:
    """Whether a member cluster serves this kind: those of Kubernetes, and ours that apply inside one cluster."""
    return kind.type.__module__.startswith("trimtab.api.kinds.native.") or kind.group == "trimtab.dev"


def is_served_by_member(kind: Kind) -> bool:
    """The same for a member without the further parts of a whole cluster."""
    return is_served_by_whole_cluster(kind) and kind.type not in KINDS_OF_WHOLE_CLUSTERS


def seeded_uids(rng: random.Random) -> Callable[[], str]:
    return lambda: str(UUID(bytes=rng.randbytes(16), version=4))


def placeholder_pod(node: str, amounts: dict[str, int]) -> Raw:
    """A pod without owner that occupies so much of a node."""
    requests = {"cpu": from_milli(amounts["cpu"]), "memory": str(amounts["memory"])}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"placeholder-{node}", "namespace": "kube-system", "labels": {PLACEHOLDER_LABEL: "true"}},
        "spec": {
            "nodeName": node,
            "containers": [{"name": "placeholder", "image": "placeholder", "resources": {"requests": requests}}],
            "tolerations": [{"operator": "Exists"}],
        },
    }
