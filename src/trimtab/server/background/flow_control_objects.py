"""Creates the FlowSchemas and PriorityLevelConfigurations, restores the mandatory ones, and reports missing levels."""

import asyncio
from collections.abc import Callable, Iterator

import orjson

from trimtab.api.kinds.native.flow_control import GROUP
from trimtab.api.value import Raw
from trimtab.clock import timestamp
from trimtab.errors import ApiError
from trimtab.server.auth.user import Caller
from trimtab.server.flowcontrol.bootstrap import mandatory_objects, suggested_objects
from trimtab.server.registry.object_schema import DesiredObject
from trimtab.server.registry.resource_store import ResourceStore
from trimtab.server.request.options import WriteOptions
from trimtab.server.resources import ObjectPath, ServedResource
from trimtab.store.keys import group_prefix, resource_prefix

_PREFIX = group_prefix(GROUP)
_SCHEMAS, _LEVELS = resource_prefix(GROUP, "flowschemas"), resource_prefix(GROUP, "prioritylevelconfigurations")
_CALLER = Caller(user_agent="api-priority-and-fairness-config-producer-v1")


class FlowControlObjects:
    """The stored objects that configure flow control."""

    def __init__(self, resource_store: ResourceStore, on_change: Callable[[], None]) -> None:
        self._resource_store = resource_store
        self._on_change = on_change
        self._store = resource_store.store

    def read(self) -> tuple[list[Raw], list[Raw]]:
        """The FlowSchemas and the PriorityLevelConfigurations."""
        return list(self._objects(_SCHEMAS)), list(self._objects(_LEVELS))

    def _objects(self, prefix: str) -> Iterator[Raw]:
        for entry in self._store.list(prefix).entries:
            yield orjson.loads(entry.value)

    async def create(self) -> None:
        """Create what is missing, at the start of the server."""
        await self._resource_store.create_missing((*mandatory_objects(), *suggested_objects()), _CALLER)

    async def run(self) -> None:
        """Restore the mandatory objects after each deletion, and keep the status of the FlowSchemas."""
        watch = self._store.watch(_PREFIX)
        await self._restore()
        async for _ in watch:
            await self._restore()

    async def _restore(self) -> None:
        try:
            await self._resource_store.create_missing(mandatory_objects(), _CALLER)
            self._on_change()
            await self._report_dangling()
        except ApiError:  # the next change, or the next start, tries again
            await asyncio.sleep(1)

    async def _report_dangling(self) -> None:
        """Set the condition `Dangling` of every FlowSchema whose condition is not up to date."""
        served = self._resource_store.catalogue.find(GROUP, "v1", "flowschemas")
        if served is None:
            return
        schemas, levels = self.read()
        names = {level["metadata"]["name"] for level in levels}
        writes = []
        for schema in schemas:
            wanted = schema["spec"]["priorityLevelConfiguration"]["name"]
            status = "False" if wanted in names else "True"
            conditions = (schema.get("status") or {}).get("conditions") or ()
            if not any(one.get("type") == "Dangling" and one.get("status") == status for one in conditions):
                writes.append(self._write_condition(served, schema["metadata"]["name"], wanted, status))
        await asyncio.gather(*writes)  # together, so that they share one commit

    async def _write_condition(self, served: ServedResource, name: str, level: str, status: str) -> None:
        found = "and it exists" if status == "False" else "but there is no such object"
        condition = {
            "type": "Dangling",
            "status": status,
            "lastTransitionTime": timestamp(self._resource_store.clock.now()),
            "reason": "Found" if status == "False" else "NotFound",
            "message": f'This FlowSchema references the PriorityLevelConfiguration object named "{level}" {found}',
        }

        def change(obj: Raw) -> DesiredObject:
            others = [c for c in (obj.get("status") or {}).get("conditions") or () if c.get("type") != "Dangling"]
            return DesiredObject({**obj, "status": {"conditions": [*others, condition]}})

        where = ObjectPath(served, "", name, "status")
        await self._resource_store.change(where, change, WriteOptions(field_manager=_CALLER.user_agent), _CALLER)
