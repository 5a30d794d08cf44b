from datetime import UTC, datetime, timedelta

from trimtab.api.value import OwnerReference
from trimtab.decide.pods.avoid_list import (
    AVOID_PODS_ANNOTATION,
    MAX_ENTRIES,
    AvoidEntry,
    PodSignature,
    active_entries,
    add_entry,
    encode_entries,
    entries_of,
    is_avoided_by,
)

NOON = datetime(2026, 8, 1, 12, tzinfo=UTC)


def avoid_entry(uid: str, minutes: int = 60, **more: str) -> AvoidEntry:
    signature = PodSignature(pod_controller=OwnerReference(uid=uid))
    return AvoidEntry(pod_signature=signature, expiry=NOON + timedelta(minutes=minutes), seconds=60 * minutes, **more)


def test_list_round_trips_and_an_invalid_annotation_is_empty() -> None:
    text = encode_entries([avoid_entry("rs", root_uid="top")])
    assert text is not None
    (seen,) = entries_of({AVOID_PODS_ANNOTATION: text})
    assert is_avoided_by([seen], {"top"}, NOON)
    assert not is_avoided_by([seen], {"other"}, NOON)
    assert entries_of({AVOID_PODS_ANNOTATION: "nonsense"}) == ()


def test_list_is_bounded_and_drops_what_expires_soonest() -> None:
    entries: tuple[AvoidEntry, ...] = ()
    for number in range(MAX_ENTRIES):
        entries = add_entry(entries, avoid_entry(f"u{number}", 10 + number), NOON)
    entries = add_entry(entries, avoid_entry("new"), NOON)
    assert len(entries) == MAX_ENTRIES
    assert not is_avoided_by(entries, {"u0"}, NOON)
    assert is_avoided_by(entries, {"new"}, NOON)


def test_entry_ends_by_time_without_owner_or_once_the_other_pod_is_scheduled() -> None:
    entries = [
        avoid_entry("old", -1),
        avoid_entry("gone"),
        avoid_entry("kept"),
        avoid_entry("done", until_pod_scheduled="large"),
    ]
    kept = active_entries(entries, NOON, lambda one: "gone" not in one.uids, lambda _: False)
    assert [one.uids for one in kept] == [{"kept"}]


def test_expired_entry_avoids_nothing() -> None:
    entry = avoid_entry("rs", minutes=5)
    assert is_avoided_by([entry], {"rs"}, NOON + timedelta(minutes=4))
    assert not is_avoided_by([entry], {"rs"}, NOON + timedelta(minutes=5))
