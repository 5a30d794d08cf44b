"""Namespaces: scopes for the names of objects."""

from trimtab.api.kind import kind
from trimtab.api.kinds.native.defaults import objects as objects_defaults
from trimtab.api.value import Object, Value


class NamespaceSpec(Value):
    finalizers: tuple[str, ...] = ()


class NamespaceStatus(Value):
    phase: str = ""


@kind(
    group="",
    version="v1",
    plural="namespaces",
    short=["ns"],
    namespaced=False,
    status=True,
    custom=False,
    defaults=[objects_defaults.namespace],
)
class Namespace(Object):
    spec: NamespaceSpec = NamespaceSpec()
    status: NamespaceStatus = NamespaceStatus()

    @property
    def is_terminating(self) -> bool:
        return self.metadata.deletion_timestamp is not None or self.status.phase == "Terminating"
