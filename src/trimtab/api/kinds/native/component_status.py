"""The health of the parts of a control plane: computed for each request, never stored."""

from trimtab.api.kind import kind
from trimtab.api.value import Object, Value


class ComponentCondition(Value):
    type: str = ""
    status: str = ""
    message: str = ""
    error: str = ""


@kind(
    group="",
    version="v1",
    plural="componentstatuses",
    short=["cs"],
    namespaced=False,
    custom=False,
    verbs=("get", "list"),
)
class ComponentStatus(Object):
    """Deprecated in Kubernetes since 1.19, and still served."""

    conditions: tuple[ComponentCondition, ...] = ()
