"""What nodes and pods use at this moment, as a metrics server tells: made up when somebody asks, never kept."""

from datetime import datetime

from trimtab.api.kind import kind
from trimtab.api.value import Object, QuantityText, Value

GROUP = "metrics.k8s.io"
_READ = ("get", "list")


class ContainerMetrics(Value):
    name: str = ""
    usage: dict[str, QuantityText] = {}


@kind(group=GROUP, version="v1beta1", plural="nodes", singular="node", namespaced=False, custom=False, verbs=_READ)
class NodeMetrics(Object):
    """How much of a node is used."""

    timestamp: datetime | None = None
    window: str = ""
    usage: dict[str, QuantityText] = {}


@kind(group=GROUP, version="v1beta1", plural="pods", singular="pod", custom=False, verbs=_READ)
class PodMetrics(Object):
    """How much the containers of a pod use."""

    timestamp: datetime | None = None
    window: str = ""
    containers: tuple[ContainerMetrics, ...] = ()
