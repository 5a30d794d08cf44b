"""Current usage of nodes and pods in the form of metrics-server: computed for each request, never stored."""

from datetime import datetime

from trimtab.api.kind import kind
from trimtab.api.value import Object, QuantityText, Value

GROUP = "metrics.k8s.io"
_READ_ONLY = ("get", "list")


class ContainerMetrics(Value):
    name: str = ""
    usage: dict[str, QuantityText] = {}


@kind(group=GROUP, version="v1beta1", plural="nodes", singular="node", namespaced=False, custom=False, verbs=_READ_ONLY)
class NodeMetrics(Object):
    """The current usage of a node."""

    timestamp: datetime | None = None
    window: str = ""
    usage: dict[str, QuantityText] = {}


@kind(group=GROUP, version="v1beta1", plural="pods", singular="pod", custom=False, verbs=_READ_ONLY)
class PodMetrics(Object):
    """The current usage of a pod's containers."""

    timestamp: datetime | None = None
    window: str = ""
    containers: tuple[ContainerMetrics, ...] = ()
