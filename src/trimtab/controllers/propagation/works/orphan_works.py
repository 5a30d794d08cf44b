"""Deletes Works whose binding no longer exists."""

from collections.abc import Iterable, Iterator

from trimtab.api.kind import key_of
from trimtab.api.kinds.work import Binding, ClusterResourceBinding, ResourceBinding, Work
from trimtab.api.value import Key
from trimtab.controllers import well_known
from trimtab.controllers.contract import Delete, Effect, RequeueAfter, Trigger, View, controller, never
from trimtab.controllers.propagation.dispatch import works_of

GRACE_SECONDS = 30.0


def work_without_binding(old: Work | None, new: Work | None, view: View) -> Iterable[Key]:
    """A Work is new to the cache, as all are after a restart, and its binding does not exist, or not yet."""
    if old is None and new is not None and is_orphan(new, view):
        yield key_of(new)


def works_of_deleted_binding(old: Binding | None, new: Binding | None, view: View) -> Iterable[Key]:
    """A binding is gone whose finalizer did not delete its Works first: a user removed it by force."""
    if old is not None and new is None:
        yield from (key_of(work) for work in works_of(old, view))


def is_orphan(work: Work, view: View) -> bool:
    """Whether the Work belongs to a binding that does not exist."""
    key = well_known.binding_key_of_work(work)
    return key is not None and well_known.binding_at(view, key.namespace, key.name) is None


@controller(
    Work,
    writes=["Work"],
    predicate=never,
    triggers=[
        Trigger(Work, work_without_binding),
        Trigger(ResourceBinding, works_of_deleted_binding),
        Trigger(ClusterResourceBinding, works_of_deleted_binding),
    ],
    resumes=True,
)
def orphan_works(work: Work, view: View) -> Iterator[Effect]:
    """A binding that was deleted without its finalizer, or while no control plane ran, leaves its Works behind."""
    if work.metadata.deletion_timestamp is not None or not is_orphan(work, view):
        return
    created = work.metadata.creation_timestamp
    age = (view.now - created).total_seconds() if created is not None else GRACE_SECONDS
    if age < GRACE_SECONDS:
        yield RequeueAfter(GRACE_SECONDS - age)
    else:
        yield Delete(work)
