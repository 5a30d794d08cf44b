"""Adding and removing finalizers, as `controllerutil.AddFinalizer` and `RemoveFinalizer` do in Go."""

from typing import TypeVar

from trimtab.api.value import Object

T = TypeVar("T", bound=Object)


def with_finalizer(obj: T, finalizer: str) -> T:
    """The object with this finalizer, after those that it has."""
    if finalizer in obj.metadata.finalizers:
        return obj
    return obj.but(metadata=obj.metadata.but(finalizers=(*obj.metadata.finalizers, finalizer)))


def without_finalizers(obj: T, *finalizers: str) -> T:
    """The object without these finalizers; the same object if it has none of them."""
    kept = tuple(one for one in obj.metadata.finalizers if one not in finalizers)
    if len(kept) == len(obj.metadata.finalizers):
        return obj
    return obj.but(metadata=obj.metadata.but(finalizers=kept))
