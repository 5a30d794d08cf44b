"""PriorityClasses and RuntimeClasses, which pods refer to by name."""

from trimtab.api.kind import kind
from trimtab.api.kinds.native.defaults import objects as objects_defaults
from trimtab.api.kinds.native.rules import scheduling
from trimtab.api.value import Object, QuantityText, Value


@kind(
    group="scheduling.k8s.io",
    version="v1",
    plural="priorityclasses",
    short=["pc"],
    namespaced=False,
    custom=False,
    defaults=[objects_defaults.priority_class],
    validators=[scheduling.check_priority_class],
)
class PriorityClass(Object):
    value: int = 0
    global_default: bool = False
    description: str = ""
    preemption_policy: str | None = None


class Overhead(Value):
    pod_fixed: dict[str, QuantityText] = {}


@kind(
    group="node.k8s.io",
    version="v1",
    plural="runtimeclasses",
    namespaced=False,
    custom=False,
    validators=[scheduling.check_runtime_class],
)
class RuntimeClass(Object):
    handler: str = ""
    overhead: Overhead | None = None
