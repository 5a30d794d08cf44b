"""Changes that garbage collection makes to objects of any kind."""

from collections.abc import Callable, Collection

from trimtab.api.value import Raw
from trimtab.server.auth.user import Caller
from trimtab.server.registry.object_schema import DesiredObject
from trimtab.server.registry.resource_store import ResourceStore
from trimtab.server.request.options import WriteOptions
from trimtab.server.resources import ObjectPath

ChangeObject = Callable[[Raw], Raw]


async def change_object(resource_store: ResourceStore, where: ObjectPath, change: ChangeObject, caller: Caller) -> None:
    def with_change(old: Raw) -> DesiredObject:
        return DesiredObject(change(old))

    await resource_store.change(where, with_change, WriteOptions(field_manager=caller.user_agent), caller)


def without_owners(old: Raw, uids: Collection[str]) -> Raw:
    """The object without references to these owners."""
    owners = [owner for owner in old["metadata"].get("ownerReferences") or () if owner.get("uid") not in uids]
    metadata = {**old["metadata"], "ownerReferences": owners}
    if not owners:
        del metadata["ownerReferences"]
    return {**old, "metadata": metadata}


def without_finalizer(old: Raw, finalizer: str) -> Raw:
    rest = [name for name in old["metadata"].get("finalizers") or () if name != finalizer]
    return {**old, "metadata": {**old["metadata"], "finalizers": rest}}
