"""Adoption and release: a controller owns the objects that its selector matches, and no others."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from trimtab.api.kind import kind_of
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.selectors import LabelSelector
from trimtab.api.value import Key, Object, OwnerReference
from trimtab.controllers.contract import Effect, Index, Trigger, View

SelectorOf = Callable[[Any], LabelSelector | None]


def _namespace_of_orphan(child: Object) -> tuple[str, ...]:
    return () if _has_controller(child) else (child.metadata.namespace,)


def _has_controller(child: Object) -> bool:
    return any(owner.controller for owner in child.metadata.owner_references)


def orphans_by_namespace(type_: type[Any]) -> Index[Any]:
    """Objects of a type that have no controller, by namespace."""
    return Index("orphans-in", type_, _namespace_of_orphan)


ORPHAN_PODS = orphans_by_namespace(Pod)


def selector_of(owner: Any) -> LabelSelector | None:
    """The selector of a workload; a ReplicationController has a map of labels."""
    selector = owner.spec.selector
    if isinstance(selector, dict):
        return LabelSelector(match_labels=selector) if selector else None
    return selector  # type: ignore[no-any-return]


class Claim(NamedTuple):
    """The children of an owner after adoption and release, and the effects that make it so."""

    children: list[Any]
    effects: list[Effect]


def claim_children(owner: Object, owned: Iterable[Any], orphans: Iterable[Any], finalizer: str = "") -> Claim:
    """Release owned children that the selector does not match, adopt orphans that it matches.

    An adopted child gets the finalizer of the controller, if it has one; a released one loses it.
    """
    selector = selector_of(owner)
    if owner.metadata.deletion_timestamp is not None or selector is None:
        return Claim(list(owned), [])
    children: list[Any] = []
    effects: list[Effect] = []
    for child in owned:
        if selector.matches(child.metadata.labels):
            children.append(child)
        elif child.metadata.deletion_timestamp is None:
            effects.append(_release(owner, child, finalizer))
    for child in orphans:
        if child.metadata.deletion_timestamp is None and selector.matches(child.metadata.labels):
            children.append(_adopt(owner, child, finalizer))
            effects.append(children[-1])
    return Claim(children, effects)


def _adopt(owner: Object, child: Any, finalizer: str) -> Any:
    kind = kind_of(owner)
    reference = OwnerReference(
        api_version=kind.api_version,
        kind=kind.name,
        name=owner.metadata.name,
        uid=owner.metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )
    others = tuple(one for one in child.metadata.owner_references if one.uid != owner.metadata.uid)
    kept = tuple(name for name in child.metadata.finalizers if name != finalizer)
    finalizers = (*kept, finalizer) if finalizer else kept
    return child.but(metadata=child.metadata.but(owner_references=(*others, reference), finalizers=finalizers))


def _release(owner: Object, child: Any, finalizer: str) -> Any:
    kept = tuple(one for one in child.metadata.owner_references if one.uid != owner.metadata.uid)
    finalizers = tuple(name for name in child.metadata.finalizers if name != finalizer)
    return child.but(metadata=child.metadata.but(owner_references=kept, finalizers=finalizers))


def orphan_trigger(parent: type[Object], child: type[Object]) -> Trigger:
    """A trigger that enqueues the workloads that would adopt a child without a controller."""
    kind = kind_of(parent)

    def keys(old: Object | None, new: Object | None, view: View) -> Iterator[Key]:
        if new is None or _has_controller(new) or new.metadata.deletion_timestamp is not None:
            return
        if old is not None and not _has_controller(old) and old.metadata.labels == new.metadata.labels:
            return
        for owner in view.all(parent, new.metadata.namespace):
            selector = selector_of(owner)
            if selector is not None and selector.matches(new.metadata.labels):
                yield Key(kind.id, owner.metadata.namespace, owner.metadata.name)

    return Trigger(child, keys)
