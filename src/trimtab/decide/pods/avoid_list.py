"""PreferAvoidPods: the bounded list on a node of those who were sent away from it and should rather not come back."""

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime, timedelta

import msgspec

from trimtab.api.value import OwnerReference, Value, always

ANNOTATION = "scheduler.alpha.kubernetes.io/preferAvoidPods"
"""The form that Kubernetes gave it once: it works on every API server, because annotations survive everywhere."""
MOST = 32
LONG, SHORT, LONGEST = timedelta(hours=1), timedelta(minutes=10), timedelta(hours=24)
"""How long after a bad experience, how long at most until another pod is scheduled, and how long after repetitions."""


class Signature(Value):
    pod_controller: OwnerReference = OwnerReference()


class Avoidance(Value):
    """One owner whose pods should rather go elsewhere."""

    pod_signature: Signature = always(Signature())
    eviction_time: datetime | None = None
    reason: str = ""
    message: str = ""
    expiry: datetime | None = None
    until_pod_scheduled: str = ""
    """The uid of the pod for whose sake it was; once that has a node, the entry is over."""
    root_uid: str = ""
    """The owner above the controller: a roll-out must not make us forget."""
    seconds: int = 0
    """How long it was meant to last; it doubles when the same owner offends again."""

    @property
    def uids(self) -> frozenset[str]:
        return frozenset(uid for uid in (self.pod_signature.pod_controller.uid, self.root_uid) if uid)

    def over(self, now: datetime) -> bool:
        return self.expiry is not None and self.expiry <= now


class AvoidPods(Value):
    prefer_avoid_pods: tuple[Avoidance, ...] = always(())


def entries_of(annotations: Mapping[str, str]) -> tuple[Avoidance, ...]:
    """The list of a node; what cannot be read avoids nobody."""
    text = annotations.get(ANNOTATION)
    if not text:
        return ()
    try:
        return msgspec.json.decode(text, type=AvoidPods).prefer_avoid_pods
    except msgspec.DecodeError:
        return ()


def text_of(entries: Collection[Avoidance]) -> str | None:
    """The annotation; None when there is nothing to say."""
    return msgspec.json.encode(AvoidPods(prefer_avoid_pods=tuple(entries))).decode() if entries else None


def avoids(entries: Iterable[Avoidance], owners: Collection[str], now: datetime) -> bool:
    """Whether the node is to be avoided by pods of these owners."""
    return any(not entry.over(now) and not entry.uids.isdisjoint(owners) for entry in entries)


def added(entries: Iterable[Avoidance], new: Avoidance, now: datetime) -> tuple[Avoidance, ...]:
    """The list with one more; the same owner is refreshed for twice as long, and the bound holds."""
    before = next((one for one in entries if not one.uids.isdisjoint(new.uids)), None)
    if before is not None and new.seconds and not new.until_pod_scheduled:
        seconds = min(max(new.seconds, 2 * before.seconds), int(LONGEST.total_seconds()))
        new = new.but(seconds=seconds, expiry=now + timedelta(seconds=seconds))
    others = [one for one in entries if one is not before]
    return (*shortened(others, now, MOST - 1), new)


def crowded_out(before: Iterable[Avoidance], after: Collection[Avoidance], now: datetime) -> tuple[Avoidance, ...]:
    """Those who were still meant to stay away and are forgotten only because the list is full."""
    kept = frozenset(uid for one in after for uid in one.uids)
    return tuple(one for one in before if not one.over(now) and one.uids.isdisjoint(kept))


def shortened(entries: Iterable[Avoidance], now: datetime, most: int) -> tuple[Avoidance, ...]:
    """At most so many: those that are over go first, then those that end soonest."""
    kept = list(entries)
    while len(kept) > most:
        kept.remove(min(kept, key=lambda one: (not one.over(now), one.expiry or now)))
    return tuple(kept)


def still_meant(
    entries: Iterable[Avoidance],
    now: datetime,
    exists: Callable[[Avoidance], bool],
    waits: Callable[[str], bool],
) -> tuple[Avoidance, ...]:
    """Without what is over: by time, because the owner is gone, or because the other pod has its node."""
    return tuple(
        one
        for one in entries
        if not one.over(now) and exists(one) and (not one.until_pod_scheduled or waits(one.until_pod_scheduled))
    )
