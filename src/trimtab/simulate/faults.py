"""Faults of simulated members by request: a cluster, a node or a workload fails and recovers.

A request is a POST to `/simulation/faults/CLUSTER`. It needs the permission to update that Cluster, and the page exists
only where members are simulated.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Annotated

import msgspec

from trimtab.api.selectors import LabelSelector
from trimtab.api.value import Field, Value
from trimtab.errors import BadRequest, MethodNotAllowed, NotFound
from trimtab.server.auth.authorize import Action
from trimtab.server.request.messages import Request, Response
from trimtab.simulate.kubelets.behaviour import CRASH, NEVER_READY, OUT_OF_MEMORY, BehaviourOverride
from trimtab.simulate.lean.member import LeanMember
from trimtab.simulate.member import SimulatedMember
from trimtab.simulate.member_api import MemberApi
from trimtab.simulate.world import World

CLUSTER_STATES = ("down", "partition", "slow", "flapping", "recover")
NODE_STATES = ("down", "recover")
WORKLOAD_FAILURES = {"not-ready": NEVER_READY, "crash": CRASH, "out-of-memory": OUT_OF_MEMORY}
WORKLOAD_STATES = (*WORKLOAD_FAILURES, "recover")
MIN_SECONDS, MAX_SECONDS = 0.1, 3600.0
MAX_WORKLOAD_FAULTS = 200
"""Failing workloads of a member: every new pod is compared with each."""
MAX_NAME_LENGTH = 512


class FaultRequest(Value, forbid_unknown_fields=True):
    """What happens to a member, or to a node or workload in it."""

    state: Annotated[str, Field("What happens: down, partition, slow, flapping, not-ready, crash or recover.")]
    node: Annotated[str, Field("A node of the member; without it and a workload the member itself.")] = ""
    workload: Annotated[str, Field("`namespace/name`; pods are selected by the label `app`.")] = ""
    seconds: Annotated[float, Field("Delay of each response (slow), or length of each phase (flapping).")] = 30.0


class FaultInjector:
    """Carries out fault requests on a world; a flapping member flaps until it recovers or another fault replaces it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.current: dict[str, str] = {}
        """What is wrong with each member that was let fail, until it recovers."""
        self._listeners: list[Callable[[str], object]] = []
        self._flapping: dict[str, asyncio.Task[None]] = {}
        self._recovering: set[asyncio.Task[None]] = set()

    def add_listener(self, listener: Callable[[str], object]) -> None:
        """Call `listener` with the name of each member that fails or recovers."""
        self._listeners.append(listener)

    def handle(self, request: Request) -> Response:
        """A request to `/simulation/faults/CLUSTER`."""
        cluster = cluster_of_path(request.path)
        if not cluster:
            raise NotFound("the path must be /simulation/faults/CLUSTER")
        if request.method != "POST":
            raise MethodNotAllowed("faults are sent by POST")
        try:
            fault = msgspec.json.decode(request.body, type=FaultRequest)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise BadRequest(f"the body is not a fault: {error}") from error
        return Response(200, msgspec.json.encode({"message": self.inject(cluster, fault)}))

    def inject(self, cluster: str, fault: FaultRequest) -> str:
        """Carry out the request; returns a sentence about what happens."""
        member = self._world.members.get(cluster)
        if member is None:
            raise NotFound(f"cluster {cluster} is not simulated; faults work only in simulated members")
        if not MIN_SECONDS <= fault.seconds <= MAX_SECONDS:
            raise BadRequest(f"seconds is {fault.seconds:g}; it must be {MIN_SECONDS:g} to {MAX_SECONDS:g}")
        if max(map(len, (fault.state, fault.workload, fault.node))) > MAX_NAME_LENGTH:
            raise BadRequest(f"a name has more than {MAX_NAME_LENGTH} characters")
        if fault.workload or fault.node:
            if isinstance(member, LeanMember):
                raise BadRequest(f"{cluster} is a lean member: it counts replicas, and has no pods or nodes that fail")
            return change_workload(member, fault) if fault.workload else self._change_node(member, fault)
        return self._change_cluster(member, fault)

    def _change_cluster(self, member: MemberApi, fault: FaultRequest) -> str:
        require_state(fault.state, CLUSTER_STATES)
        flapping = self._flapping.pop(member.name, None)
        if flapping is not None:
            flapping.cancel()
        if not member.is_reachable:
            member.start_api()
        member.delay_requests(0.0)
        changes: dict[str, Callable[[], object]] = {
            "down": member.stop_api,
            "partition": member.partition,
            "slow": lambda: member.delay_requests(fault.seconds),
            "flapping": lambda: self._start_flapping(member, fault.seconds),
            "recover": lambda: None,
        }
        changes[fault.state]()
        self._note_fault(member.name, fault)
        texts = {
            "down": f"{member.name} fails: its API server and controllers stop",
            "partition": f"{member.name} cannot be reached; inside, everything runs on",
            "slow": f"{member.name} responds {fault.seconds:g} s later",
            "flapping": f"{member.name} cannot be reached for {fault.seconds:g} s, again and again",
            "recover": f"{member.name} recovers",
        }
        return texts[fault.state]

    def _note_fault(self, name: str, fault: FaultRequest) -> None:
        """Remember what is wrong with a member, for those who look at it."""
        texts = {
            "down": "its API server and controllers are stopped",
            "partition": "it cannot be reached; inside, everything runs on",
            "slow": f"it responds {fault.seconds:g} s later",
            "flapping": f"it cannot be reached for {fault.seconds:g} s, again and again",
        }
        self.current.pop(name, None)
        if fault.state in texts:
            self.current[name] = texts[fault.state]
        for listener in self._listeners:
            listener(name)

    def _start_flapping(self, member: MemberApi, seconds: float) -> None:
        async def flap() -> None:
            while True:
                member.partition()
                await asyncio.sleep(seconds)
                member.heal()
                await asyncio.sleep(seconds)

        self._flapping[member.name] = asyncio.get_running_loop().create_task(flap(), name=f"flap {member.name}")

    def _change_node(self, member: SimulatedMember, fault: FaultRequest) -> str:
        require_state(fault.state, NODE_STATES)
        known = sorted(member.kubelets.machines)
        if fault.node not in known:
            raise NotFound(f"{member.name} has no node {fault.node}; nodes: {', '.join(known[:20])}")
        if fault.state == "recover":
            task = asyncio.get_running_loop().create_task(member.kubelets.recover(fault.node))
            self._recovering.add(task)
            task.add_done_callback(self._recovering.discard)
            return f"node {fault.node} of {member.name} recovers"
        member.kubelets.fail(fault.node)
        return f"node {fault.node} of {member.name} fails"

    async def stop(self) -> None:
        for task in [*self._flapping.values(), *self._recovering]:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._flapping.clear()


PREFIX = "/simulation/faults/"


def cluster_of_path(path: str) -> str:
    """The cluster that the path of a request names; empty for other paths."""
    name = path.removeprefix(PREFIX)
    return name if path.startswith(PREFIX) and "/" not in name else ""


def action_of(request: Request) -> Action | None:
    """The permission that a fault needs."""
    name = cluster_of_path(request.path)
    return Action("update", "cluster.karmada.io", "clusters", name=name) if name else None


def require_state(state: str, states: tuple[str, ...]) -> None:
    if state not in states:
        raise BadRequest(f"the state is {state!r}; it must be one of {', '.join(states)}")


def change_workload(member: SimulatedMember, fault: FaultRequest) -> str:
    require_state(fault.state, WORKLOAD_STATES)
    namespace, _, app = fault.workload.rpartition("/")
    name = f"fault/{fault.workload}"
    member.kubelets.remove_override(name)
    if fault.state == "recover":
        return f"{fault.workload} recovers in {member.name}"
    if len(member.kubelets.behaviours.overrides) >= MAX_WORKLOAD_FAULTS:
        raise BadRequest(f"{MAX_WORKLOAD_FAULTS} workloads fail in {member.name} already: let some recover first")
    selector = LabelSelector(match_labels={"app": app})
    count = member.kubelets.override_behaviour(
        BehaviourOverride(name, WORKLOAD_FAILURES[fault.state], namespace, selector, fault.node)
    )
    later = "" if count else f"; no pod there has the label app={app} yet"
    return f"{fault.workload} fails in {member.name}: {fault.state}{later}"
