"""Works whose reason is gone: no binding, no namespace, no cluster asks for them any more."""

from collections.abc import Iterable, Iterator

from trimtab.api.kind import key_of
from trimtab.api.kinds.work import Binding, Work
from trimtab.api.value import Key
from trimtab.controllers import well_known
from trimtab.controllers.contract import Again, Gone, View, Wake, Wish, controller, never

PATIENCE_SECONDS = 30.0


def orphan(old: Work | None, new: Work | None, view: View) -> Iterable[Key]:
    """A Work is seen for the first time, as all are after a restart, and its binding is not there, or not yet."""
    if old is None and new is not None and names_a_binding(new) and binding_of(new, view) is None:
        yield key_of(new)


def names_a_binding(work: Work) -> bool:
    return well_known.RB_NAME in work.metadata.annotations or well_known.CRB_NAME in work.metadata.annotations


def binding_of(work: Work, view: View) -> Binding | None:
    annotations = work.metadata.annotations
    name = annotations.get(well_known.RB_NAME) or annotations.get(well_known.CRB_NAME, "")
    return well_known.binding_at(view, annotations.get(well_known.RB_NAMESPACE, ""), name)


@controller(Work, writes=["Work"], changed=never, wakes=[Wake(Work, orphan)])
def collect(work: Work, view: View) -> Iterator[Wish]:
    """A binding deleted while nobody looked leaves its Works."""
    if not names_a_binding(work) or work.metadata.deletion_timestamp is not None or binding_of(work, view) is not None:
        return
    born = work.metadata.creation_timestamp
    age = (view.now - born).total_seconds() if born is not None else PATIENCE_SECONDS
    if age < PATIENCE_SECONDS:
        yield Again(PATIENCE_SECONDS - age)
    else:
        yield Gone(work)
