"""Compares a manifest with the object in its member: fields that the member owns, and defaults that it added."""

from typing import Any

import orjson

from trimtab.api.value import Raw
from trimtab.controllers import well_known
from trimtab.controllers.contract import Ref, RememberInProcess, Topic, View
from trimtab.interpret.interpreter import Interpreter
from trimtab.interpret.operations import Operation
from trimtab.interpret.prune import prune

SENT: Topic[tuple[str, Ref], int] = Topic("sent")
"""The fingerprint of the last write, by cluster and object."""
SETTLED: Topic[tuple[str, Ref], tuple[int, int]] = Topic("settled")
"""The fingerprint of a write, and of what the member made of it."""


def with_member_fields(manifest: Raw, seen: Raw, interpreter: Interpreter) -> Raw:
    """The manifest with what the member owns: resourceVersion, its own labels and annotations, and retained fields."""
    mine, theirs = manifest["metadata"], seen["metadata"]
    metadata = {**mine, "resourceVersion": theirs.get("resourceVersion", "")}
    for field in ("finalizers", "ownerReferences"):
        if theirs.get(field):
            metadata[field] = theirs[field]
    for section, record in (("annotations", well_known.MANAGED_ANNOTATIONS), ("labels", well_known.MANAGED_LABELS)):
        applied_before = set((theirs.get("annotations") or {}).get(record, "").split(","))
        kept = {k: v for k, v in (theirs.get(section) or {}).items() if k not in applied_before}
        merged = kept | (mine.get(section) or {})
        if merged:
            metadata[section] = merged
    wanted = {**manifest, "metadata": metadata}
    if interpreter.interprets((manifest["apiVersion"], manifest["kind"]), Operation.RETAIN):
        wanted = interpreter.retain(wanted, seen)
    return wanted


def fingerprint(pruned: Raw) -> int:
    """A hash of the object that is valid only within this process, like what `RememberInProcess` keeps.

    Python's own hash is keyed and keeps the interpreter lock; hashlib releases it for texts of this size.
    """
    return hash(orjson.dumps(pruned, option=orjson.OPT_SORT_KEYS))


def comparable(wanted: Raw, seen: Raw) -> Raw:
    """What is compared with the member's object, without differences that are no reason for a write of their own.

    An object that another control plane applied has no mark of ours; it gets the mark with the next change. The API server
    of the member writes the spec of a namespace, which is not propagated.
    """
    pruned = prune(wanted)
    if well_known.CONTROL_PLANE not in well_known.annotations_of(seen):
        annotations = well_known.annotations_of(pruned)
        kept = {key: value for key, value in annotations.items() if key != well_known.CONTROL_PLANE}
        if len(kept) < len(annotations):
            pruned = {**pruned, "metadata": {**pruned["metadata"], "annotations": kept}}
    if pruned["kind"] == "Namespace" and not pruned.get("spec") and "spec" in seen:
        pruned = {**pruned, "spec": seen["spec"]}
    return pruned


def is_sent(cluster: str, ref: Ref, wanted: Raw, view: View) -> bool:
    """Whether the last write of this process sent exactly this."""
    return view.recall(SENT, (cluster, ref)) == fingerprint(prune(wanted))


def matches_last_write(
    cluster: str, ref: Ref, wanted: Raw, seen: Raw, view: View
) -> tuple[bool, RememberInProcess[Any, Any] | None]:
    """Whether the member's object is as wanted, apart from defaults of its API server, and what to remember.

    A member may default fields that the host does not know. Then the object never equals the manifest; it counts as
    unchanged as long as it equals what the member made of the last write.
    """
    mine, theirs = comparable(wanted, seen), prune(seen)
    last, settled = view.recall(SENT, (cluster, ref)), view.recall(SETTLED, (cluster, ref))
    if mine == theirs:
        # The member added no defaults, so any later difference is a change by another writer.
        exact = last is not None and (settled is None or settled[0] != last)
        return True, RememberInProcess(SETTLED, (cluster, ref), (last, last)) if exact else None
    wanted_hash, found_hash = fingerprint(prune(wanted)), fingerprint(theirs)
    if last != wanted_hash:
        return False, None
    if settled is None or settled[0] != wanted_hash:
        return True, RememberInProcess(SETTLED, (cluster, ref), (wanted_hash, found_hash))
    return settled[1] == found_hash, None
