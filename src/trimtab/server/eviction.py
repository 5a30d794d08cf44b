"""Evictions: a pod may go when its budgets allow it, and what they grant is written before it goes."""

from datetime import datetime
from typing import Any, NamedTuple

import orjson

from trimtab.api.selectors import LabelSelector, LabelSelectorRequirement
from trimtab.api.value import Raw
from trimtab.decide.evict import Budget, Debit, EvictedPod, Preconditions, Refusal, Verdict, verdict
from trimtab.errors import ApiFault, BadRequest, Cause, Conflict, Forbidden, TooManyRequests
from trimtab.server import refuse
from trimtab.server.caller import Caller
from trimtab.server.catalogue import Where
from trimtab.server.deletion import plan_deletion
from trimtab.server.options import DeleteOptions, delete_options
from trimtab.server.verbs import Verbs, timestamp
from trimtab.server.wire import pack, unpack
from trimtab.store.entry import Entry
from trimtab.store.txn import Mismatch, Put

_BUDGETS = "/registry/policy/poddisruptionbudgets/"
_TRIES = 8


class _Guard(NamedTuple):
    """A budget as it is stored."""

    entry: Entry
    obj: Raw


def _ready(pod: Raw) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)


def _selects(selector: Raw | None, labels: Raw) -> bool:
    if selector is None:
        return False
    rules = tuple(
        LabelSelectorRequirement(key=r["key"], operator=r["operator"], values=tuple(r.get("values") or ()))
        for r in selector.get("matchExpressions") or ()
    )
    return LabelSelector(match_labels=selector.get("matchLabels") or {}, match_expressions=rules).matches(labels)


def _budget(obj: Raw) -> Budget:
    status: Raw = obj.get("status") or {}
    allowed: Raw = next((c for c in status.get("conditions") or () if c.get("type") == "DisruptionAllowed"), {})
    return Budget(
        obj["metadata"]["name"],
        obj["metadata"].get("generation", 0),
        status.get("observedGeneration", 0),
        status.get("disruptionsAllowed", 0),
        status.get("currentHealthy", 0),
        status.get("desiredHealthy", 0),
        len(status.get("disruptedPods") or {}),
        (obj.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow",
        allowed.get("status", ""),
        allowed.get("reason", ""),
        allowed.get("message", ""),
    )


def _fault(refusal: Refusal, name: str) -> ApiFault:
    causes = [Cause("DisruptionBudget", text) for text in refusal.causes]
    if refusal.code == 429:
        return TooManyRequests(refusal.message, causes=causes, retry_after=refusal.retry_after_seconds or None)
    if refusal.code == 403:
        return Forbidden(refusal.message, causes=causes)
    if refusal.code == 409:
        return Conflict(refusal.message, kind="Pod", name=name)
    return refuse.plain_error(refusal.message)


class Evictions:
    """Serves `pods/NAME/eviction`."""

    def __init__(self, verbs: Verbs, *, several_budgets: bool) -> None:
        self._verbs = verbs
        self._several_budgets = several_budgets

    async def evict(self, where: Where, body: Raw, caller: Caller, *, dry_run: bool) -> None:
        if (body.get("metadata") or {}).get("name") != where.name:
            raise BadRequest("name in URL does not match name in Eviction object")
        given: Any = body.get("deleteOptions")
        options = delete_options(given if isinstance(given, dict) else None, {})
        dry_run = dry_run or options.dry_run
        for _ in range(_TRIES):
            entry = self._verbs.entry(where)
            pod = unpack(where.served, entry.value, entry.mod_revision)
            guards = self._guards(pod)
            judged = self._judge(pod, guards, options)
            if judged.refusal is not None and not judged.debits:
                raise _fault(judged.refusal, where.name)
            if dry_run:
                return
            try:
                await self._go(where, entry, pod, judged, guards)
            except Mismatch:
                continue
            if judged.refusal is not None:
                raise _fault(judged.refusal, where.name)
            await self._verbs.delete(where, options._replace(uid=pod["metadata"]["uid"], version=""), caller)
            return
        raise refuse.conflict(where.served.resource, where.served.group, where.name)

    def _guards(self, pod: Raw) -> list[_Guard]:
        metadata = pod["metadata"]
        found = []
        for entry in self._verbs.store.list(f"{_BUDGETS}{metadata['namespace']}/").entries:
            obj = orjson.loads(entry.value)
            if _selects((obj.get("spec") or {}).get("selector"), metadata.get("labels") or {}):
                found.append(_Guard(entry, obj))
        return found

    def _judge(self, pod: Raw, guards: list[_Guard], options: DeleteOptions) -> Verdict:
        metadata = pod["metadata"]
        known = EvictedPod(
            metadata["name"],
            metadata["uid"],
            metadata["resourceVersion"],
            (pod.get("status") or {}).get("phase", ""),
            _ready(pod),
            bool(metadata.get("deletionTimestamp")),
        )
        return verdict(
            known,
            [_budget(guard.obj) for guard in guards],
            Preconditions(options.uid, options.version),
            self._verbs.clock.now(),
            several_allowed=self._several_budgets,
        )

    async def _go(self, where: Where, entry: Entry, pod: Raw, judged: Verdict, guards: list[_Guard]) -> None:
        """Write the debits and why the pod goes, in one step."""
        now = self._verbs.clock.now()
        by_name = {guard.obj["metadata"]["name"]: guard for guard in guards}
        writes = [_paid(by_name[debit.budget], debit, where.name, now) for debit in judged.debits]
        if judged.refusal is None and self._lingers(where, pod, now):
            writes.append(Put(entry.key, pack(_doomed(pod, timestamp(now))), entry.mod_revision))
        if writes:
            await self._verbs.store.commit(writes)

    def _lingers(self, where: Where, pod: Raw, now: datetime) -> bool:
        """Whether the pod will still be seen while it ends, so that its condition is worth writing."""
        if pod["metadata"].get("deletionTimestamp"):
            return False
        return not plan_deletion(where.served, pod, DeleteOptions(), now).gone


def _paid(guard: _Guard, debit: Debit, pod: str, now: datetime) -> Put:
    status: Raw = {**(guard.obj.get("status") or {})}
    status["disruptionsAllowed"] = debit.disruptions_allowed
    status["disruptedPods"] = {**(status.get("disruptedPods") or {}), pod: timestamp(now)}
    return Put(guard.entry.key, orjson.dumps({**guard.obj, "status": status}), guard.entry.mod_revision)


def _doomed(pod: Raw, now: str) -> Raw:
    """The pod with the condition that says an eviction ends it."""
    status: Raw = pod.get("status") or {}
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": now,
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }
    others = [c for c in status.get("conditions") or () if c.get("type") != "DisruptionTarget"]
    return {**pod, "status": {**status, "conditions": [*others, condition]}}
