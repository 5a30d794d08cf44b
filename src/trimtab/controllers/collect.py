"""Works whose reason is gone: no binding, no namespace, no cluster asks for them any more."""

from collections.abc import Iterator

from trimtab.api.kinds.work import Work
from trimtab.controllers import marks
from trimtab.controllers.contract import Again, Gone, View, Wish, controller

PATIENCE_SECONDS = 30.0


def first_sight(old: Work | None, new: Work) -> bool:
    return old is None


@controller(Work, writes=["Work"], changed=first_sight)
def collect(work: Work, view: View) -> Iterator[Wish]:
    """Asked once per Work, and after a restart once more: a binding deleted while nobody looked leaves its Works."""
    annotations = work.metadata.annotations
    name = annotations.get(marks.RB_NAME) or annotations.get(marks.CRB_NAME)
    if not name or work.metadata.deletion_timestamp is not None:
        return
    binding = marks.binding_at(view, annotations.get(marks.RB_NAMESPACE, ""), name)
    if binding is not None:
        return
    born = work.metadata.creation_timestamp
    age = (view.now - born).total_seconds() if born is not None else PATIENCE_SECONDS
    if age < PATIENCE_SECONDS:
        yield Again(PATIENCE_SECONDS - age)
    else:
        yield Gone(work)
