"""ControllerRevisions: the template history of a StatefulSet or DaemonSet."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from trimtab.api.kinds.native.apps import ControllerRevision
from trimtab.api.value import Object, Raw
from trimtab.controllers.contract import Delete, Effect, Ensure, View
from trimtab.simulate.workloads.owned_pods import children_by_owner, owner_reference, raw_of, safe_hash

HASH_LABEL = "controller-revision-hash"
REVISIONS_BY_OWNER = children_by_owner(ControllerRevision)


class RevisionHistory(NamedTuple):
    """All revisions of one workload, and the one of the current template."""

    name: str
    """Name of the current revision; `effects` create it if it does not exist."""
    template_hash: str
    """Hash in the name of the current revision; a label of DaemonSet pods."""
    revisions: Sequence[ControllerRevision]
    effects: tuple[Effect, ...]


def revision_history(owner: Object, view: View) -> RevisionHistory:
    raw = raw_of(owner, view)
    template = raw["spec"]["template"]
    known = sorted(view.by_index(REVISIONS_BY_OWNER, owner.metadata.uid), key=lambda one: (one.revision, one.name))
    newest = max((one.revision for one in known), default=0)
    current = next((one for one in reversed(known) if _has_template(raw_of(one, view), template)), None)
    if current is None:
        template_hash = _new_hash(owner, template, {one.name for one in known})
        name = f"{owner.metadata.name}-{template_hash}"
        new = _new_revision(owner, raw, name, newest + 1)
        return RevisionHistory(name, template_hash, known, (Ensure(new),))
    template_hash = current.metadata.labels.get(HASH_LABEL) or current.name.rpartition("-")[2]
    if current.revision < newest:  # the template was rolled back to
        return RevisionHistory(current.name, template_hash, known, (current.but(revision=newest + 1),))
    return RevisionHistory(current.name, template_hash, known, ())


def _has_template(revision: Raw, template: Raw) -> bool:
    """Whether the revision is one of this template, whatever its name is: somebody else may have created it."""
    stored = ((revision.get("data") or {}).get("spec") or {}).get("template") or {}
    return _comparable(stored) == _comparable(template)


def _comparable(template: Raw) -> Raw:
    metadata = {key: value for key, value in (template.get("metadata") or {}).items() if value is not None}
    return {**{key: value for key, value in template.items() if key != "$patch"}, "metadata": metadata}


def _new_hash(owner: Object, template: Raw, names: Collection[str]) -> str:
    """The hash of the template; another one if a revision of another template has its name."""
    data: Raw = {"spec": {"template": {**template, "$patch": "replace"}}}
    found, collisions = safe_hash(data), 0
    while f"{owner.metadata.name}-{found}" in names:
        collisions += 1
        found = safe_hash({**data, "collisions": collisions})
    return found


def _revision_data(template: Raw) -> Raw:
    """The patch to a template, byte for byte as the controllers of Kubernetes write it: clients compare the bytes."""
    metadata = {"creationTimestamp": None, **(template.get("metadata") or {})}
    return {"spec": {"template": _sort_keys({**template, "metadata": metadata, "$patch": "replace"})}}


def _sort_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sort_keys(value[key]) for key in sorted(value)}
    return [_sort_keys(one) for one in value] if isinstance(value, list) else value


def _new_revision(owner: Object, raw: Raw, name: str, number: int) -> Raw:
    labels = (raw["spec"]["template"].get("metadata") or {}).get("labels") or {}
    annotations = raw["metadata"].get("annotations")
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": name,
            "namespace": owner.metadata.namespace,
            "labels": {**labels, HASH_LABEL: name.rpartition("-")[2]},
            **({"annotations": annotations} if annotations else {}),  # the cause of the change, for the history
            "ownerReferences": [owner_reference(owner)],
        },
        "data": _revision_data(raw["spec"]["template"]),
        "revision": number,
    }


def delete_old_revisions(history: RevisionHistory, in_use: set[str], limit: int | None) -> Iterator[Effect]:
    """Delete old revisions beyond the history limit, unless pods still use them."""
    idle = [one for one in history.revisions if one.name not in in_use and one.name != history.name]
    for one in idle[: max(0, len(idle) - (10 if limit is None else limit))]:
        yield Delete(one)
