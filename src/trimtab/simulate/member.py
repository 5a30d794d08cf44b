"""One simulated member cluster: API server, controllers, pod scheduler and kubelets, with fault injection."""

import asyncio
import contextlib
import random
import secrets
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple, cast
from uuid import UUID

from trimtab.api.kind import Kind
from trimtab.api.kinds.disruption import PriorityOrder
from trimtab.api.kinds.native.lease import Lease
from trimtab.api.kinds.native.namespace import Namespace
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.kinds.native.scheduling import PriorityClass
from trimtab.api.kinds.native.storage import PersistentVolumeClaim
from trimtab.api.profile import Profile
from trimtab.api.quantity import from_milli
from trimtab.api.value import Raw
from trimtab.client.client import Client
from trimtab.clock import Clock
from trimtab.controllers import pods as inside_modules
from trimtab.controllers.pods.registry import member_controllers
from trimtab.errors import AlreadyExists, NotFound, Unavailable
from trimtab.registry import discover
from trimtab.rescheduling.drain import DrainOptions, NodeDrain
from trimtab.rescheduling.rescheduler import Rescheduler
from trimtab.runtime.cache import Cache
from trimtab.runtime.manager import ControllerManager
from trimtab.runtime.view import ControlPlaneState
from trimtab.server.admission.member_budget_defaults import MemberBudgetDefaults
from trimtab.server.admission.priority_quota import PriorityQuotaCheck
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.auth.certificates import write_secret
from trimtab.server.local import LocalClient
from trimtab.server.registry.resource_store import ComputedObjects
from trimtab.server.request.messages import Request, Response, StreamingResponse
from trimtab.simulate import workloads as workload_modules
from trimtab.simulate.behaviour import Spell
from trimtab.simulate.container_logs import output
from trimtab.simulate.faulty_client import Line
from trimtab.simulate.fleet import FleetPlan, MemberPlan, NodePlan
from trimtab.simulate.kubelet import NODES, PODS, Kubelets, Shape
from trimtab.simulate.metrics_server import Meter
from trimtab.simulate.pod_scheduler import Binder
from trimtab.simulate.scalable_kinds import follow_scales
from trimtab.simulate.usage import Usage
from trimtab.simulate.workloads.registry import workloads
from trimtab.store.index import Retention
from trimtab.store.store import Store

SHORT_MEMORY = Retention(revisions=4_000, seconds=60.0, superseded_bytes=1024 * 1024, cached_events=32)
"""A fleet in one process cannot afford a long history per member."""
LOOKED_UP = (Lease, Namespace, PersistentVolumeClaim, PriorityClass, PriorityOrder)
"""Types that controllers read without being triggered by them: their tables are filled before controllers start."""
HEARD_FIRST_SECONDS = 0.1
FILLER = "simulate.trimtab.dev/filler"
METERED = ("nodes.metrics.k8s.io", "pods.metrics.k8s.io")


class Nobody:
    """The member lookup of a member cluster, which has no members of its own."""

    def get(self, cluster: str) -> None:
        return None


class Ground(NamedTuple):
    """What all members of a world share."""

    clock: Clock
    profile: Profile
    dice: random.Random
    """One generator per member."""
    directory: Path | None = None
    """Directory of the members' data; None keeps it in memory."""


class Member:
    """A simulated cluster, reached from outside through `client`."""

    def __init__(self, plan: MemberPlan, fleet: FleetPlan, environment: Ground) -> None:
        discover(workload_modules)
        discover(inside_modules)
        self.plan = plan
        self.name = plan.name
        self._fleet = fleet
        self._ground = environment
        self._dice = environment.dice
        self.usage = Usage()
        computed = {id_: partial(self._metered, id_) for id_ in METERED}
        self.server = (
            _on_disk(environment, plan.name, computed) if environment.directory else _in_memory(environment, computed)
        )
        local = LocalClient(self.server)
        self._inside = Line(local, plan.name, lean=True)
        self._nodes = Line(local, plan.name, lean=True)
        self._reopening: asyncio.TimerHandle | None = None
        self._outside = Line(local, plan.name)
        self.cache: Cache
        self.manager: ControllerManager
        self.binder: Binder
        self.kubelets: Kubelets
        self.meter: Meter | None = None
        self.rescheduler: Rescheduler

    @property
    def client(self) -> Client:
        """The client of the control plane and of users."""
        return self._outside

    @property
    def inside(self) -> Client:
        """The client of the cluster's own components, which partitions do not affect."""
        return self._inside

    async def start(self) -> None:
        environment, fleet = self._ground, self._fleet
        await self.server.start()
        self.cache = Cache(self._inside)
        for type_ in LOOKED_UP:
            self.cache.table_of(type_)
        state = ControlPlaneState(
            cache=self.cache, clock=environment.clock, profile=environment.profile, members=Nobody()
        )
        follow_scales(state)
        self.manager = ControllerManager(state, [*workloads.values(), *member_controllers.values()])
        shape = Shape(self.name, fleet.pace_of(self.plan), fleet.heartbeat_seconds)
        self.kubelets = Kubelets(
            self.cache,
            self.plan.node_plans(),
            shape,
            clock=environment.clock,
            dice=environment.dice,
            client=self._nodes,
        )
        self.binder = Binder(
            self.cache, clock=environment.clock, profile=environment.profile, first_fit=fleet.binder == "first-fit"
        )
        self.rescheduler = Rescheduler(
            self._inside, clock=environment.clock, profile=environment.profile, embedded=True, reservations=self.binder
        )
        self.meter = Meter(self.usage, lambda: self.pods, self.kubelets, environment.clock)
        await self.kubelets.start()
        await self.meter.start()
        await self.manager.start()
        await self.binder.start()
        await self.rescheduler.start()

    async def stop(self) -> None:
        await self.rescheduler.stop()
        await self.binder.stop()
        if self.meter is not None:
            await self.meter.stop()
        await self.kubelets.stop()
        await self.manager.stop()
        await self.server.stop()

    # connectivity

    async def answer(self, ask: Request) -> Response | StreamingResponse:
        """Handle a request from outside."""
        try:
            return await self._outside.through(lambda: self.server.handler.handle(ask))
        except OSError as fault:
            raise Unavailable(str(fault)) from fault

    def partition(self, *, silent_seconds: float = 0.0) -> None:
        """Cut the cluster off: connections are refused, or time out after so many seconds. Inside, all runs on."""
        self._outside.break_off(silent_seconds=silent_seconds)

    def heal(self) -> None:
        self._outside.mend()

    def slow(self, seconds: float) -> None:
        """Delay every request from outside by so many seconds; 0 removes the delay."""
        self._outside.delay = seconds

    def stop_api(self) -> None:
        """Stop the API server: requests from outside fail, its own components wait."""
        if self._reopening is not None:
            self._reopening.cancel()
        self._outside.break_off()
        self._inside.hold()
        self._nodes.hold()

    def start_api(self) -> None:
        """Start the API server again. Kubelets connect first: controllers would see expired leases and evict pods."""
        self._outside.mend()
        self._nodes.let_go()
        self._reopening = asyncio.get_running_loop().call_later(HEARD_FIRST_SECONDS, self._inside.let_go)

    @property
    def reachable(self) -> bool:
        return not self._outside.cut

    # nodes

    def fail_node(self, node: str) -> None:
        self.kubelets.fail(node)

    async def recover_node(self, node: str) -> None:
        await self.kubelets.recover(node)

    async def press_node(self, node: str, what: str, *, on: bool = True) -> None:
        """Set or clear pressure on `memory`, `disk`, `pid` or `cpu`."""
        await self.kubelets.press(node, what, on=on)

    async def add_node(self, plan: NodePlan) -> None:
        await self.kubelets.add(plan)

    async def remove_node(self, node: str) -> None:
        await self.kubelets.remove(node)

    async def cordon(self, node: str, *, closed: bool = True) -> None:
        await self.inside.patch(NODES, "", node, {"spec": {"unschedulable": closed or None}}, manager="kubectl")

    async def drain(self, node: str) -> None:
        """Cordon the node and evict its pods, waiting for budgets as long as necessary."""
        options = DrainOptions(force=True, ignore_daemonsets=True, delete_emptydir_data=True)
        await NodeDrain(self.inside, node, clock=self._ground.clock, options=options).run()

    # capacity

    async def claim(self, factor: float) -> None:
        """Let every node report so many times the capacity that its kubelet admits; 1 is the actual capacity."""
        await self.kubelets.claim(factor)

    async def fill(self, part: float = 1.0) -> None:
        """Occupy this fraction of the free capacity of every node with filler pods."""
        for here in list(self.binder.fleet.nodes):
            needs = {name: int(here.free_amount(name) * part) for name in ("cpu", "memory")}
            if any(amount > 0 for amount in needs.values()) and here.free_pods > 0:
                with contextlib.suppress(AlreadyExists):
                    await self.inside.create(PODS, filler(here.name, needs), manager="filler")

    async def empty(self) -> None:
        """Delete the pods that `fill_nodes` created."""
        for pod in (await self.inside.list(PODS, "kube-system", labels=FILLER)).items:
            with contextlib.suppress(NotFound):
                await self.inside.delete(PODS, "kube-system", pod["metadata"]["name"], grace_seconds=0)

    # pods

    def cast(self, spell: Spell) -> None:
        """Change the behaviour of some pods (see `simulate.behaviour`), until `remove_override`."""
        self.kubelets.cast(spell)

    def lift(self, name: str) -> None:
        self.kubelets.lift(name)

    @property
    def pods(self) -> list[Pod]:
        """Every pod, as cached by the components of the cluster."""
        table = self.cache.table(PODS)
        return [table.entries[name].typed for name in table.names()]  # type: ignore[misc]

    def _metered(self, id_: str) -> Iterable[Raw]:
        """The objects of `metrics.k8s.io`; none before the cluster has started."""
        return self.meter.sources()[id_]() if self.meter is not None else ()

    @property
    def idle(self) -> bool:
        """Whether no component has anything to do."""
        return self.manager.is_idle and self.binder.idle and self.kubelets.idle


def _in_memory(environment: Ground, computed: Mapping[str, ComputedObjects]) -> ApiServer:
    """An API server without persistence; uids and keys come from the seed, so runs are repeatable."""
    settings = ApiServerSettings(
        clock=environment.clock,
        new_uid=seeded_uids(environment.dice),
        token_key=environment.dice.randbytes(32),
        serves=of_a_member,
        check_all_budgets=environment.profile.all_budgets_must_allow,
        container_logs=output,
        plugins=(MemberBudgetDefaults(),),
        store_plugins=(PriorityQuotaCheck,),
        computed=computed,
    )
    return ApiServer(Store(SHORT_MEMORY), settings)


def _on_disk(environment: Ground, name: str, computed: Mapping[str, ComputedObjects]) -> ApiServer:
    """An API server that survives restarts: uids are random, so that none repeats, and the token key is stored."""
    directory = cast("Path", environment.directory) / name
    store = Store.open(directory)
    key = directory / "service-account.key"
    if not key.exists():
        write_secret(key, secrets.token_hex(32).encode())
    return ApiServer(
        store,
        ApiServerSettings(
            clock=environment.clock,
            token_key=key.read_bytes(),
            serves=of_a_member,
            check_all_budgets=environment.profile.all_budgets_must_allow,
            container_logs=output,
            plugins=(MemberBudgetDefaults(),),
            store_plugins=(PriorityQuotaCheck,),
            computed=computed,
        ),
    )


def of_a_member(kind: Kind) -> bool:
    """Whether a member cluster serves this kind: those of Kubernetes, and ours that apply inside one cluster."""
    return kind.type.__module__.startswith("trimtab.api.kinds.native.") or kind.group == "trimtab.dev"


def seeded_uids(dice: random.Random) -> Callable[[], str]:
    return lambda: str(UUID(bytes=dice.randbytes(16), version=4))


def filler(node: str, needs: dict[str, int]) -> Raw:
    """A pod without owner that occupies so much of a node."""
    requests = {"cpu": from_milli(needs["cpu"]), "memory": str(needs["memory"])}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"filler-{node}", "namespace": "kube-system", "labels": {FILLER: "true"}},
        "spec": {
            "nodeName": node,
            "containers": [{"name": "filler", "image": "filler", "resources": {"requests": requests}}],
            "tolerations": [{"operator": "Exists"}],
        },
    }
