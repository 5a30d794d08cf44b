"""References to a template that bindings and Works carry: the owner reference and the resource of the binding."""

from trimtab.api.kinds.work import ObjectReference
from trimtab.api.value import OwnerReference, Raw
from trimtab.controllers import well_known
from trimtab.controllers.contract import Ref


def controller_reference(ref: Ref) -> OwnerReference:
    """The owner reference that makes this object the managing controller of another."""
    return OwnerReference(
        api_version=ref.api_version,
        kind=ref.kind,
        name=ref.name,
        uid=ref.uid,
        controller=True,
        block_owner_deletion=True,
    )


def object_reference(template: Raw) -> ObjectReference:
    """The template at its present version; the version changes with the content, so that Works are rendered again."""
    ref = well_known.ref_of_raw(template)
    return ObjectReference(
        api_version=ref.api_version,
        kind=ref.kind,
        namespace=ref.namespace,
        name=ref.name,
        uid=ref.uid,
        resource_version=template["metadata"].get("resourceVersion", ""),
    )
