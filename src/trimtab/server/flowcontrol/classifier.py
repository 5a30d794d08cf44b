"""Classifies requests by the stored FlowSchemas and PriorityLevelConfigurations of one API server."""

from collections.abc import Callable, Iterable, Sequence

from trimtab.api.value import Raw
from trimtab.server.auth.authorize import Action
from trimtab.server.auth.user import User
from trimtab.server.flowcontrol.bootstrap import mandatory_objects, suggested_objects
from trimtab.server.flowcontrol.classification import Configuration, Flow

Headers = tuple[tuple[bytes, bytes], ...]
ReadObjects = Callable[[], tuple[Iterable[Raw], Iterable[Raw]]]
"""Returns the FlowSchemas and the PriorityLevelConfigurations."""
_UNCLASSIFIED = Flow("catch-all", "", "catch-all", "")


class Classifier:
    """The configuration as it is stored; read when it is first needed, and again after it has changed."""

    def __init__(self, read_objects: ReadObjects) -> None:
        self._read_objects = read_objects
        self._configuration: Configuration | None = None
        self._headers: dict[tuple[str, str], Headers] = {}

    def invalidate(self) -> None:
        """Read the configuration again before the next request."""
        self._configuration = None

    @property
    def is_current(self) -> bool:
        return self._configuration is not None

    @property
    def configuration(self) -> Configuration:
        """The stored objects, and the mandatory ones where they are missing; all initial ones in an empty store."""
        if self._configuration is None:
            schemas, levels = (list(objects) for objects in self._read_objects())
            initial = [*mandatory_objects()] if schemas and levels else [*mandatory_objects(), *suggested_objects()]
            self._configuration = Configuration(
                _with_missing(schemas, (obj for obj in initial if obj["kind"] == "FlowSchema")),
                _with_missing(levels, (obj for obj in initial if obj["kind"] != "FlowSchema")),
            )
            self._headers.clear()
        return self._configuration

    def classify(self, user: User, action: Action) -> Flow:
        """The flow of a request."""
        return self.configuration.classify(user, action) or _UNCLASSIFIED

    def headers_of(self, flow: Flow) -> Headers:
        """Response headers that name the schema and the level of a flow."""
        key = (flow.schema, flow.level)
        headers = self._headers.get(key)
        if headers is None:
            level = self.configuration.levels[flow.level]
            headers = self._headers[key] = (
                (b"x-kubernetes-pf-flowschema-uid", flow.schema_uid.encode()),
                (b"x-kubernetes-pf-prioritylevel-uid", level.uid.encode()),
            )
        return headers


def _with_missing(stored: Sequence[Raw], initial: Iterable[Raw]) -> list[Raw]:
    names = {obj["metadata"]["name"] for obj in stored}
    return [*stored, *(obj for obj in initial if obj["metadata"]["name"] not in names)]
