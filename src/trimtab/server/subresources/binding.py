"""Bindings: a pod is given its node, if the node is still as the scheduler saw it when it chose."""

from collections.abc import Sequence
from typing import NamedTuple

import orjson

from trimtab.api.value import Raw
from trimtab.clock import timestamp
from trimtab.errors import Cause, Conflict
from trimtab.server.auth.user import Caller
from trimtab.server.http.options import WriteOptions, parse_version
from trimtab.server.registry import api_errors
from trimtab.server.registry.object_schema import Wanted
from trimtab.server.registry.resource_store import Verbs
from trimtab.server.registry.resources import Where
from trimtab.store.txn import Draft, Operation, Proposal, Put

SEEN, BINDER = "trimtab.dev/bind-generation", "trimtab.dev/binder"
"""On a Binding: up to which revision the scheduler has seen what was bound, and which scheduler it is."""
_LAST = "/trimtab/binds/"


class _Last(NamedTuple):
    """Who bound to a node last, and since which revision nobody else did. The key's own revision is its generation."""

    binder: str = ""
    since: int = 0


class Bindings:
    """Serves `pods/NAME/binding`."""

    def __init__(self, verbs: Verbs, *, guarded: bool) -> None:
        self._verbs = verbs
        self._guarded = guarded
        """Remember who bound to which node, and refuse those who chose before they saw it."""

    async def bind(self, where: Where, body: Raw, options: WriteOptions, caller: Caller) -> None:
        node = target_of(body)
        now = timestamp(self._verbs.clock.now())

        def bound(old: Raw) -> Wanted:
            return Wanted(_bound(old, node, now))

        beside = [_expecting(where.name, node, body, caller)] if self._guarded else []
        await self._verbs.change(where, bound, options, caller, beside=beside)


def target_of(body: Raw) -> str:
    """The node that a binding names; refuses one that names none."""
    target = body.get("target") if isinstance(body.get("target"), dict) else {}
    node, kind = (target or {}).get("name") or "", (target or {}).get("kind") or "Node"
    causes = []
    if kind != "Node":
        said = f'Unsupported value: {api_errors.quoted(kind)}: supported values: "Node"'
        causes.append(Cause("FieldValueNotSupported", said, "target.kind"))
    if not node:
        causes.append(Cause("FieldValueRequired", "Required value", "target.name"))
    if causes:
        raise api_errors.invalid("Binding", "", str(body.get("metadata", {}).get("name") or ""), causes)
    return str(node)


def _expecting(pod: str, node: str, body: Raw, caller: Caller) -> Proposal:
    """Refuses when somebody else bound to the node after what the scheduler saw; else remembers this binding.

    A scheduler may have several bindings on their way to one node: its own do not count against it.
    """
    annotations: Raw = (body.get("metadata") or {}).get("annotations") or {}
    seen = parse_version(str(annotations.get(SEEN) or ""))
    binder = str(annotations.get(BINDER) or f"{caller.user.name}/{caller.agent}")

    def propose(draft: Draft) -> Sequence[Operation]:
        entry = draft.get(f"{_LAST}{node}")
        last = _Last(*orjson.loads(entry.value)) if entry is not None else _Last()
        generation = entry.mod_revision if entry is not None else 0
        foreign = last.since if last.binder == binder else generation
        if seen is not None and foreign > seen:
            said = f"another pod was bound to node {node} since it was chosen (bind generation {foreign}, seen {seen})"
            raise _conflict(pod, said)
        return [Put(f"{_LAST}{node}", orjson.dumps([binder, foreign]))]

    return propose


def _bound(old: Raw, node: str, now: str) -> Raw:
    """A pod that has been given its node."""
    spec, metadata = old.get("spec", {}), old["metadata"]
    if metadata.get("deletionTimestamp"):
        raise _conflict(metadata["name"], f"pod {metadata['name']} is being deleted, cannot be assigned to a host")
    if spec.get("nodeName"):
        raise _conflict(metadata["name"], f'pod {metadata["name"]} is already assigned to node "{spec["nodeName"]}"')
    condition = {
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": now,
        "observedGeneration": metadata.get("generation", 1),
    }
    status = old.get("status", {})
    others = [c for c in status.get("conditions") or () if c.get("type") != "PodScheduled"]
    return {
        **old,
        "spec": {**spec, "nodeName": node},
        "status": {**status, "conditions": [*others, condition]},
    }


def _conflict(name: str, why: str) -> Conflict:
    return api_errors.conflict("pods/binding", "", name, why)
