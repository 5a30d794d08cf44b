"""The preferAvoidPods list of a node: a bounded list of owners whose pods should not be scheduled there again soon."""

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime, timedelta

import msgspec

from trimtab.api.value import OwnerReference, Value, never_omit

AVOID_PODS_ANNOTATION = "scheduler.alpha.kubernetes.io/preferAvoidPods"
"""The annotation that Kubernetes once used; it works on every API server because annotations are always stored."""
MAX_ENTRIES = 32
DEFAULT_AVOID_TIME, MAX_AVOID_TIME_UNTIL_SCHEDULED, MAX_AVOID_TIME = (
    timedelta(hours=1),
    timedelta(minutes=10),
    timedelta(hours=24),
)
"""Duration after a failed run; maximum until another pod is scheduled; maximum after repetitions."""


class PodSignature(Value):
    pod_controller: OwnerReference = OwnerReference()


class AvoidEntry(Value):
    """An owner whose pods should avoid the node."""

    pod_signature: PodSignature = never_omit(PodSignature())
    eviction_time: datetime | None = None
    reason: str = ""
    message: str = ""
    expiry: datetime | None = None
    until_pod_scheduled: str = ""
    """The uid of the pod that the room was made for; the entry ends when that pod is scheduled."""
    root_uid: str = ""
    """The uid of the top-level owner, so that the entry survives a rollout."""
    seconds: int = 0
    """The intended duration; it doubles when the same owner is added again."""

    @property
    def uids(self) -> frozenset[str]:
        return frozenset(uid for uid in (self.pod_signature.pod_controller.uid, self.root_uid) if uid)

    def is_expired(self, now: datetime) -> bool:
        return self.expiry is not None and self.expiry <= now


class AvoidPods(Value):
    prefer_avoid_pods: tuple[AvoidEntry, ...] = never_omit(())


def entries_of(annotations: Mapping[str, str]) -> tuple[AvoidEntry, ...]:
    """Return the list of a node; an invalid annotation counts as empty."""
    text = annotations.get(AVOID_PODS_ANNOTATION)
    if not text:
        return ()
    try:
        return msgspec.json.decode(text, type=AvoidPods).prefer_avoid_pods
    except (msgspec.DecodeError, RecursionError):
        return ()


def encode_entries(entries: Collection[AvoidEntry]) -> str | None:
    """Return the annotation value; None when there are no entries."""
    return msgspec.json.encode(AvoidPods(prefer_avoid_pods=tuple(entries))).decode() if entries else None


def is_avoided_by(entries: Iterable[AvoidEntry], owners: Collection[str], now: datetime) -> bool:
    """Return whether pods of these owners should avoid the node."""
    return any(not entry.is_expired(now) and not entry.uids.isdisjoint(owners) for entry in entries)


def add_entry(entries: Iterable[AvoidEntry], new: AvoidEntry, now: datetime) -> tuple[AvoidEntry, ...]:
    """Return the list with a new entry; a repeated owner is kept for twice as long, and `MAX_ENTRIES` holds."""
    before = next((one for one in entries if not one.uids.isdisjoint(new.uids)), None)
    if before is not None and new.seconds and not new.until_pod_scheduled:
        seconds = min(max(new.seconds, 2 * before.seconds), int(MAX_AVOID_TIME.total_seconds()))
        new = new.but(seconds=seconds, expiry=now + timedelta(seconds=seconds))
    others = [one for one in entries if one is not before]
    return (*limit_entries(others, now, MAX_ENTRIES - 1), new)


def entries_dropped_for_space(
    before: Iterable[AvoidEntry], after: Collection[AvoidEntry], now: datetime
) -> tuple[AvoidEntry, ...]:
    """Return entries that had not expired and were dropped only because the list is full."""
    kept = frozenset(uid for one in after for uid in one.uids)
    return tuple(one for one in before if not one.is_expired(now) and one.uids.isdisjoint(kept))


def limit_entries(entries: Iterable[AvoidEntry], now: datetime, limit: int) -> tuple[AvoidEntry, ...]:
    """Return at most `limit` entries; expired ones are dropped first, then those that expire soonest."""
    kept = list(entries)
    while len(kept) > limit:
        kept.remove(min(kept, key=lambda one: (not one.is_expired(now), one.expiry or now)))
    return tuple(kept)


def active_entries(
    entries: Iterable[AvoidEntry],
    now: datetime,
    exists: Callable[[AvoidEntry], bool],
    is_pending: Callable[[str], bool],
) -> tuple[AvoidEntry, ...]:
    """Return entries that have not expired, whose owner exists, and whose other pod has no node yet."""
    return tuple(
        one
        for one in entries
        if not one.is_expired(now)
        and exists(one)
        and (not one.until_pod_scheduled or is_pending(one.until_pod_scheduled))
    )
