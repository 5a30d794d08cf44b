"""The templates that a StatefulSet or DaemonSet has had, kept as ControllerRevisions."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from trimtab.api.kinds.native.apps import ControllerRevision
from trimtab.api.value import Object, Raw
from trimtab.controllers.contract import Gone, Make, View, Wish
from trimtab.simulate.workloads.owned_pods import children, owner_reference, raw_of, safe_hash

HASH = "controller-revision-hash"
REVISIONS = children(ControllerRevision)


class History(NamedTuple):
    """All revisions of one workload, and which of them is today's template."""

    name: str
    """Of today's revision; whether it exists yet, `wishes` say."""
    mark: str
    """The hash in its name, which pods of DaemonSets carry."""
    known: Sequence[ControllerRevision]
    wishes: tuple[Wish, ...]


def history(owner: Object, view: View) -> History:
    raw = raw_of(owner, view)
    data = {"spec": {"template": {**raw["spec"]["template"], "$patch": "replace"}}}
    mark = safe_hash(data)
    name = f"{owner.metadata.name}-{mark}"
    known = sorted(view.having(REVISIONS, owner.metadata.uid), key=lambda one: (one.revision, one.name))
    newest = max((one.revision for one in known), default=0)
    today = next((one for one in known if one.name == name), None)
    if today is None:
        return History(name, mark, known, (Make(_revision(owner, raw, name, data, newest + 1)),))
    if today.revision < newest:  # a template that came back
        return History(name, mark, known, (today.but(revision=newest + 1),))
    return History(name, mark, known, ())


def _revision(owner: Object, raw: Raw, name: str, data: Raw, number: int) -> Raw:
    labels = (raw["spec"]["template"].get("metadata") or {}).get("labels") or {}
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": name,
            "namespace": owner.metadata.namespace,
            "labels": {**labels, HASH: name.rpartition("-")[2]},
            "ownerReferences": [owner_reference(owner)],
        },
        "data": data,
        "revision": number,
    }


def forgotten(past: History, in_use: set[str], limit: int | None) -> Iterator[Wish]:
    """Old revisions beyond the history that is kept go, unless pods still run them."""
    idle = [one for one in past.known if one.name not in in_use and one.name != past.name]
    for one in idle[: max(0, len(idle) - (10 if limit is None else limit))]:
        yield Gone(one)
