"""Sends objects to an API server as one field manager, and counts the writes."""

from trimtab.api.value import Raw
from trimtab.client.client import Client, Resource
from trimtab.controllers.contract import Delete, Ensure, Ref
from trimtab.controllers.well_known import ref_of
from trimtab.runtime.effects.commit import difference, with_version


class ObjectWriter:
    """The writes of one controller, to the host and to members."""

    def __init__(self, field_manager: str, *, exact_versions: bool = False) -> None:
        """`exact_versions`: server-side apply changes only the version that was seen; other updates always do."""
        self.field_manager = field_manager
        self._exact_versions = exact_versions
        self.writes = 0

    async def ensure(self, client: Client, resource: Resource, effect: Ensure) -> Raw | None:
        """Apply, create, replace or patch the object; `None` if nothing differs."""
        metadata = effect.wanted["metadata"]
        namespace = metadata.get("namespace", "")
        if effect.apply_as:
            self.writes += 1
            return await client.patch(
                resource,
                namespace,
                metadata["name"],
                self._body_to_apply(effect),
                type="apply",
                manager=effect.apply_as,
                force=effect.force,
            )
        if effect.seen is None:
            self.writes += 1
            return await client.create(resource, effect.wanted, manager=self.field_manager)
        if effect.replace:
            self.writes += 1
            return await client.replace(
                resource, effect.wanted, subresource=effect.subresource, manager=self.field_manager
            )
        patch = difference(effect.seen, effect.wanted)
        if not patch:
            return None
        self.writes += 1
        return await client.patch(
            resource,
            namespace,
            metadata["name"],
            with_version(patch, effect.seen["metadata"].get("resourceVersion", "")),
            subresource=effect.subresource,
            manager=self.field_manager,
        )

    def _body_to_apply(self, effect: Ensure) -> Raw:
        """What server-side apply sends: without a resourceVersion it would also change what another process wrote."""
        if effect.seen is None or not self._exact_versions:
            return effect.wanted
        return with_version(effect.wanted, effect.seen["metadata"].get("resourceVersion", ""))

    async def delete(self, client: Client, resource: Resource, ref: Ref, revision: str) -> None:
        """Delete the object if it still has the uid, and the resourceVersion if one is given; raises NotFound."""
        self.writes += 1
        await client.delete(resource, ref.namespace, ref.name, uid=ref.uid, revision=revision)


def target_of(effect: Delete) -> Ref:
    return effect.target if isinstance(effect.target, Ref) else ref_of(effect.target)
