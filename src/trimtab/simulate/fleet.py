"""The format of `fleet.yaml`, which describes a simulated fleet: its members, their size, and how fast pods start."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec

from trimtab.api.names import subdomain_faults
from trimtab.api.quantity import InvalidQuantity, canonical_form, from_milli, int_value, milli_value
from trimtab.api.value import Field, QuantityText, Value
from trimtab.api.yaml_documents import FILE, YamlError, load_yaml
from trimtab.errors import InputError, unreadable
from trimtab.simulate.components.system_workloads import control_plane_node

MAX_LEASE_RENEWALS_PER_SECOND = 50
"""Upper bound of lease renewals per second, over all kubelets of a fleet."""
MAX_NODES_WITH_KUBELET_EVENTS = 500
"""The kubelets of a fleet with more nodes record no events."""
MAX_NODES_OF_POOL = 10_000
"""More than the largest Kubernetes clusters have; a larger number is a mistake in the file."""

SCHEDULERS = ("pods", "first-fit", "none")
EMULATED_VERSIONS = ("1.32", "1.33", "1.34", "1.35", "1.36")
DISABLEABLE_PLUGINS = (
    "DefaultIngressClass",
    "DefaultStorageClass",
    "DefaultTolerationSeconds",
    "ServiceAccount",
    "StorageObjectInUseProtection",
)


_FIELD_OF_ERROR = re.compile(r"(?P<message>.*?)(?: - at `\$\.?(?P<field>[^`]*)`)?\Z", re.DOTALL)
_UNKNOWN_FIELD = re.compile(r"Object contains unknown field `(?P<name>[^`]*)`\Z")


class FleetError(InputError):
    """The description of a fleet is wrong: in which field, and why."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}" if field else message)
        self.field = field
        self.message = message


class Pace(Value, forbid_unknown_fields=True):
    """Durations on a node, in seconds."""

    start: Annotated[float, Field("Seconds from binding to running.", minimum=0)] = 0.0
    ready: Annotated[float, Field("Seconds from running to ready.", minimum=0)] = 0.0
    stop: Annotated[float, Field("Seconds from deletion to termination, within the grace period.", minimum=0)] = 0.0
    run: Annotated[float, Field("Seconds that a pod of a Job runs.", minimum=0)] = 1.0
    jitter: Annotated[float, Field("Fraction by which each of these may be longer.", minimum=0)] = 0.0


PACES: Mapping[str, Pace] = {
    "instant": Pace(),
    "fast": Pace(start=0.2, ready=0.1, stop=0.1, run=2.0, jitter=0.5),
    "typical": Pace(start=3.0, ready=2.0, stop=1.0, run=30.0, jitter=0.5),
    "slow": Pace(start=20.0, ready=20.0, stop=10.0, run=120.0, jitter=0.5),
}


class NodeTaint(Value, forbid_unknown_fields=True):
    key: str = ""
    value: str = ""
    effect: str = "NoSchedule"


class NodePool(Value, forbid_unknown_fields=True):
    """Nodes of one size."""

    nodes: Annotated[int, Field("Number of nodes.", minimum=0)] = 1
    cpu: QuantityText = "8"
    memory: Annotated[QuantityText | None, Field("Default: 4 GiB per CPU.")] = None
    pods: int = 110
    zone: Annotated[str, Field("Default: the zones of the member, round robin.")] = ""
    name: Annotated[str, Field("Part of the node names.")] = ""
    labels: dict[str, str] = {}
    taints: tuple[NodeTaint, ...] = ()
    resources: Annotated[dict[str, QuantityText], Field("Further resources, such as nvidia.com/gpu.")] = {}
    runtime_handlers: Annotated[
        tuple[str, ...] | None, Field("Handlers of RuntimeClasses that its container runtime has. Default: all.")
    ] = None

    @property
    def capacity(self) -> dict[str, str]:
        """The capacity that a node of this pool reports."""
        memory = self.memory if self.memory is not None else from_milli(milli_value(self.cpu) * (4 << 30), binary=True)
        further = {name: canonical_form(amount) for name, amount in sorted(self.resources.items())}
        return {"cpu": canonical_form(self.cpu), "memory": canonical_form(memory), "pods": str(self.pods), **further}


class NodePlan(Value):
    """One node to create."""

    name: str
    region: str
    zone: str
    pool: NodePool


class MemberPlan(Value, forbid_unknown_fields=True):
    """One member cluster."""

    name: str
    nodes: Annotated[int | None, Field("Number of nodes of size `cpu` and `memory`; alternatively set `pools`.")] = None
    cpu: QuantityText = "8"
    memory: QuantityText | None = None
    pods: int = 110
    pools: tuple[NodePool, ...] = ()
    region: str = ""
    zones: tuple[str, ...] = ()
    provider: str = ""
    labels: dict[str, str] = {}
    pull: Annotated[bool, Field("Join the member in Pull mode, with an agent of its own.")] = False
    system_workloads: Annotated[
        bool, Field("Run DNS, proxies and a control plane as pods; the first node is called NAME-control-plane.")
    ] = False
    pace: Annotated[
        str | Pace | None, Field("How fast pods start: a name, or durations. Default: the pace of the fleet.")
    ] = None
    lean: Annotated[
        bool | None, Field("Count the replicas of workloads instead of running pods. Default: as the fleet says.")
    ] = None

    @property
    def all_pools(self) -> tuple[NodePool, ...]:
        if self.pools:
            return self.pools
        return (
            NodePool(nodes=3 if self.nodes is None else self.nodes, cpu=self.cpu, memory=self.memory, pods=self.pods),
        )

    def node_plans(self) -> Iterator[NodePlan]:
        plans = self._pool_plans()
        if self.system_workloads and (first := next(plans, None)) is not None:
            yield first.but(name=control_plane_node(self.name))
        yield from plans

    def _pool_plans(self) -> Iterator[NodePlan]:
        for pool in self.all_pools:
            stem = "-".join(part for part in (self.name, pool.name, "node") if part)
            for number in range(1, pool.nodes + 1):
                zone = pool.zone or (self.zones[(number - 1) % len(self.zones)] if self.zones else "")
                yield NodePlan(name=f"{stem}-{number}", region=self.region, zone=zone, pool=pool)


class FleetPlan(Value, forbid_unknown_fields=True):
    """All members, and their common settings."""

    members: tuple[MemberPlan, ...] = ()
    pace: str | Pace = "fast"
    scheduler: Annotated[
        str,
        Field(
            "`pods`: schedule as kube-scheduler does; `first-fit`: the first node with enough capacity; "
            "`none`: pods wait for somebody else to bind them."
        ),
    ] = "pods"
    disable_admission_plugins: Annotated[
        tuple[str, ...],
        Field("Plugins of the members' API servers to leave out, by their names in kube-apiserver."),
    ] = ()
    anonymous_auth: Annotated[
        bool, Field("Whether the members' API servers authorise requests without credentials, or refuse them.")
    ] = True
    emulated_version: Annotated[
        str,
        Field(
            "The version of Kubernetes whose streamed lists (`sendInitialEvents`) the members serve: before `1.35` they are never tables, "
            "and end with an empty list of their kind for older clients."
        ),
    ] = "1.35"
    heartbeat: Annotated[
        float | None,
        Field(
            "Seconds between heartbeats of a node: 10, more in fleets of more than 500 nodes; 0 disables heartbeats."
        ),
    ] = None

    lean: Annotated[
        bool, Field("Members count the replicas of workloads instead of running pods; for fleets of many clusters.")
    ] = False

    @property
    def has_old_streamed_lists(self) -> bool:
        return EMULATED_VERSIONS.index(self.emulated_version) < EMULATED_VERSIONS.index("1.35")

    @property
    def node_count(self) -> int:
        """Number of nodes of all members."""
        return sum(pool.nodes for member in self.members for pool in member.all_pools)

    @property
    def heartbeat_seconds(self) -> float:
        return max(10.0, self.node_count / MAX_LEASE_RENEWALS_PER_SECOND) if self.heartbeat is None else self.heartbeat

    @property
    def records_kubelet_events(self) -> bool:
        """Not in large fleets, where the events of every pod would cost more than the pods."""
        return self.node_count <= MAX_NODES_WITH_KUBELET_EVENTS

    def is_lean(self, member: MemberPlan) -> bool:
        return self.lean if member.lean is None else member.lean

    def pace_of(self, member: MemberPlan) -> Pace:
        pace = self.pace if member.pace is None else member.pace
        return PACES[pace] if isinstance(pace, str) else pace


def default_fleet() -> FleetPlan:
    """Three members in two regions."""
    return FleetPlan(
        members=(
            MemberPlan(name="member1", nodes=3, region="eu", zones=("eu-a", "eu-b"), provider="sim"),
            MemberPlan(name="member2", nodes=3, region="eu", zones=("eu-c",), provider="sim"),
            MemberPlan(name="member3", nodes=3, region="us", zones=("us-a", "us-b"), provider="sim"),
        )
    )


def flows_fleet() -> FleetPlan:
    """The fleet against which the flows of a live control plane were recorded."""
    return FleetPlan(
        members=(
            MemberPlan(name="member1", nodes=4, region="r1", zones=("z1",), provider="p1", labels={"tier": "a"}),
            MemberPlan(name="member2", nodes=2, region="r1", zones=("z2",), provider="p1", labels={"tier": "b"}),
            MemberPlan(name="member3", nodes=1, region="r2", zones=("z3",), provider="p2", labels={"tier": "b"}),
        ),
        pace="instant",
        scheduler="first-fit",
        heartbeat=0,
    )


def uniform_fleet(clusters: int, nodes: int) -> FleetPlan:
    """Equal members, ten per region, but at least two regions."""
    regions = max(2, clusters // 10)
    return FleetPlan(
        members=tuple(
            MemberPlan(
                name=f"member{number}",
                nodes=nodes,
                region=f"region{(number - 1) % regions + 1}",
                zones=(f"zone{number}",),
                provider="sim",
            )
            for number in range(1, clusters + 1)
        )
    )


def with_system_workloads(plan: FleetPlan) -> FleetPlan:
    """The plan with the workloads of kube-system in every member."""
    return plan.but(members=tuple(member.but(system_workloads=True) for member in plan.members))


def pull_last_members(plan: FleetPlan, count: int) -> FleetPlan:
    """The plan with its last members in Pull mode."""
    if count > len(plan.members):
        raise InputError(f"the fleet has {len(plan.members)} members, so {count} of them cannot be in Pull mode")
    first = len(plan.members) - count
    members = (member.but(pull=number >= first) for number, member in enumerate(plan.members))
    return plan.but(members=tuple(members))


def read_fleet(path: Path) -> FleetPlan:
    """The fleet described in a file; raises `InputError` with the reason if it is invalid."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise unreadable(path, error) from error
    try:
        return parse_fleet(load_yaml(text, FILE))
    except YamlError as error:
        raise InputError(f"{path} is not YAML: {error}") from error
    except InputError as fault:
        raise InputError(f"{path}: {fault}") from fault


def parse_fleet(description: Any) -> FleetPlan:
    """The fleet of an already decoded description."""
    try:
        plan = msgspec.convert(description, FleetPlan, strict=False)
    except msgspec.ValidationError as error:
        raise FleetError(*field_and_message(str(error))) from error
    for message in _errors_in(plan):
        raise FleetError("", message)
    for number, member in enumerate(plan.members):
        for message in _errors_in_member(member):
            raise FleetError(f"members[{number}]", message)
    return plan


def field_and_message(text: str) -> tuple[str, str]:
    """The field that an error of the decoder is about, and the rest of its text; of an unknown field, that one."""
    found = _FIELD_OF_ERROR.match(text)
    message, field = (found["message"], found["field"] or "") if found is not None else (text, "")
    if unknown := _UNKNOWN_FIELD.match(message):
        return f"{field}.{unknown['name']}".lstrip("."), "there is no such field"
    return field, message


def _errors_in(plan: FleetPlan) -> Iterator[str]:
    names = [member.name for member in plan.members]
    if not names:
        yield "the fleet has no members"
    if len(set(names)) != len(names):
        yield "two members of the fleet have the same name"
    if plan.scheduler not in SCHEDULERS:
        yield f"scheduler is {plan.scheduler!r}; it must be one of {', '.join(SCHEDULERS)}"
    if plan.emulated_version not in EMULATED_VERSIONS:
        yield f"emulatedVersion is {plan.emulated_version!r}; it must be one of {', '.join(EMULATED_VERSIONS)}"
    for name in plan.disable_admission_plugins:
        if name not in DISABLEABLE_PLUGINS:
            yield f"the admission plugin {name!r} cannot be disabled; these can: {', '.join(DISABLEABLE_PLUGINS)}"
    for owner, pace in [("the fleet", plan.pace), *((member.name, member.pace) for member in plan.members)]:
        if isinstance(pace, str) and pace not in PACES:
            yield f"the pace of {owner} is {pace!r}; it must be one of {', '.join(PACES)}, or durations"


def _errors_in_member(member: MemberPlan) -> Iterator[str]:
    if faults := subdomain_faults(member.name):  # its directory has this name
        yield f"{member.name!r} cannot be the name of a member: {faults[0]}"
    if member.pools and member.nodes is not None:
        yield f"{member.name} has both nodes and pools; set only one of them"
    for pool in member.all_pools:
        if not 0 <= pool.nodes <= MAX_NODES_OF_POOL:
            yield f"nodes of {member.name} is {pool.nodes}; it must be 0 to {MAX_NODES_OF_POOL}"
        yield from _quantity_errors(member.name, pool)


def _quantity_errors(member: str, pool: NodePool) -> Iterator[str]:
    for name, amount in {"cpu": pool.cpu, "memory": pool.memory or "1", **pool.resources}.items():
        try:
            int_value(amount)
        except InvalidQuantity as error:
            yield f"{name} of {member}: {error}"
