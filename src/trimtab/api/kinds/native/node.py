"""Nodes, with the fields that scheduling and rescheduling read."""

from datetime import datetime

import msgspec

from trimtab.api.kind import kind
from trimtab.api.kinds.native.defaults import objects as objects_defaults
from trimtab.api.kinds.native.rules import node
from trimtab.api.value import Object, QuantityText, Value


class Taint(Value):
    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: datetime | None = None


class NodeSpec(Value):
    pod_cidr: str = msgspec.field(default="", name="podCIDR")
    provider_id: str = msgspec.field(default="", name="providerID")
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeCondition(Value):
    type: str = ""
    status: str = "Unknown"
    last_heartbeat_time: datetime | None = None
    last_transition_time: datetime | None = None
    reason: str = ""
    message: str = ""


class NodeAddress(Value):
    type: str = ""
    address: str = ""


class ContainerImage(Value):
    names: tuple[str, ...] = ()
    size_bytes: int = 0


class NodeSystemInfo(Value):
    kubelet_version: str = ""
    operating_system: str = ""
    architecture: str = ""
    os_image: str = ""
    kernel_version: str = ""
    container_runtime_version: str = ""


class NodeStatus(Value):
    capacity: dict[str, QuantityText] = {}
    allocatable: dict[str, QuantityText] = {}
    conditions: tuple[NodeCondition, ...] = ()
    addresses: tuple[NodeAddress, ...] = ()
    images: tuple[ContainerImage, ...] = ()
    node_info: NodeSystemInfo = NodeSystemInfo()


@kind(
    group="",
    version="v1",
    plural="nodes",
    short=["no"],
    namespaced=False,
    status=True,
    custom=False,
    defaults=[objects_defaults.node],
    validators=[node.check_node],
)
class Node(Object):
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def is_ready(self) -> bool:
        return any(c.type == "Ready" and c.status == "True" for c in self.status.conditions)
