"""The pods/binding subresource: assigns a pod to a node, unless others bound to that node meanwhile."""

from collections.abc import Sequence
from typing import NamedTuple

import orjson

from trimtab.api.value import Raw
from trimtab.clock import timestamp
from trimtab.errors import Cause, Conflict
from trimtab.server import api_errors
from trimtab.server.auth.user import Caller
from trimtab.server.registry.object_schema import DesiredObject
from trimtab.server.registry.resource_store import ResourceStore
from trimtab.server.request.options import WriteOptions, parse_version
from trimtab.server.resources import ObjectPath
from trimtab.store.keys import own_key
from trimtab.store.txn import Operation, Proposal, PutKey, StagedState

BIND_GENERATION, BINDER = "trimtab.dev/observed-bind-revision", "trimtab.dev/scheduler-id"
"""Annotations of a Binding: the revision up to which the scheduler has seen bindings, and which scheduler it is."""


class _LastBinder(NamedTuple):
    """Who bound to a node last, and since which revision nobody else did. The key's mod_revision is its generation."""

    binder: str = ""
    since: int = 0


class BindingSubresource:
    """Serves `pods/NAME/binding`."""

    def __init__(self, resource_store: ResourceStore, *, checks_generation: bool) -> None:
        self._resource_store = resource_store
        self._checks_generation = checks_generation
        """Record who bound to which node, and refuse bindings that are based on an older generation."""

    async def bind(self, where: ObjectPath, body: Raw, options: WriteOptions, caller: Caller) -> None:
        node = target_node(body)
        now = timestamp(self._resource_store.clock.now())

        def assign(old: Raw) -> DesiredObject:
            return DesiredObject(_with_node(old, node, now), has_defaults=True)

        extra_writes = [_generation_check(where.name, node, body, caller)] if self._checks_generation else []
        await self._resource_store.change(where, assign, options, caller, extra_writes=extra_writes)


def target_node(body: Raw) -> str:
    """The node of a binding; refuses a binding without one."""
    target = body.get("target") if isinstance(body.get("target"), dict) else {}
    node, kind = (target or {}).get("name") or "", (target or {}).get("kind") or "Node"
    causes = []
    if kind != "Node":
        message = f'Unsupported value: {api_errors.quote_value(kind)}: supported values: "Node"'
        causes.append(Cause("FieldValueNotSupported", message, "target.kind"))
    if not node:
        causes.append(Cause("FieldValueRequired", "Required value", "target.name"))
    if causes:
        raise api_errors.invalid("Binding", "", str(body.get("metadata", {}).get("name") or ""), causes)
    return str(node)


def _generation_check(pod: str, node: str, body: Raw, caller: Caller) -> Proposal:
    """Refuse when another scheduler bound to the node since the generation in the binding; else record this binding.

    A scheduler may have several bindings to one node in flight: its own do not count against it.
    """
    annotations: Raw = (body.get("metadata") or {}).get("annotations") or {}
    seen = parse_version(str(annotations.get(BIND_GENERATION) or ""))
    binder = str(annotations.get(BINDER) or f"{caller.user.name}/{caller.user_agent}")

    def propose(state: StagedState) -> Sequence[Operation]:
        entry = state.get(own_key("binds", node))
        last = _LastBinder(*orjson.loads(entry.value)) if entry is not None else _LastBinder()
        generation = entry.mod_revision if entry is not None else 0
        last_other = last.since if last.binder == binder else generation
        if seen is not None and last_other > seen:
            message = (
                f"another pod was bound to node {node} since it was chosen (bind revision {last_other}, seen {seen})"
            )
            raise _conflict(pod, message)
        return [PutKey(own_key("binds", node), orjson.dumps([binder, last_other]))]

    return propose


def _with_node(old: Raw, node: str, now: str) -> Raw:
    """The pod with its node assigned."""
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


def _conflict(name: str, reason: str) -> Conflict:
    return api_errors.conflict("pods/binding", "", name, reason)
