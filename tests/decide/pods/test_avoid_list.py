from datetime import UTC, datetime, timedelta

from trimtab.api.value import OwnerReference
from trimtab.decide.pods.avoid_list import (
    ANNOTATION,
    MOST,
    Avoidance,
    Signature,
    added,
    avoids,
    entries_of,
    still_meant,
    text_of,
)

NOON = datetime(2026, 8, 1, 12, tzinfo=UTC)


def entry(uid: str, minutes: int = 60, **more: str) -> Avoidance:
    signature = Signature(pod_controller=OwnerReference(uid=uid))
    return Avoidance(pod_signature=signature, expiry=NOON + timedelta(minutes=minutes), seconds=60 * minutes, **more)


def test_list_round_trips_and_an_invalid_annotation_is_empty() -> None:
    text = text_of([entry("rs", root_uid="top")])
    assert text is not None
    (seen,) = entries_of({ANNOTATION: text})
    assert avoids([seen], {"top"}, NOON)
    assert not avoids([seen], {"other"}, NOON)
    assert entries_of({ANNOTATION: "nonsense"}) == ()


def test_list_is_bounded_and_drops_what_expires_soonest() -> None:
    entries: tuple[Avoidance, ...] = ()
    for number in range(MOST):
        entries = added(entries, entry(f"u{number}", 10 + number), NOON)
    entries = added(entries, entry("new"), NOON)
    assert len(entries) == MOST
    assert not avoids(entries, {"u0"}, NOON)
    assert avoids(entries, {"new"}, NOON)


def test_entry_ends_by_time_without_owner_or_once_the_other_pod_is_scheduled() -> None:
    entries = [entry("old", -1), entry("gone"), entry("kept"), entry("done", until_pod_scheduled="large")]
    kept = still_meant(entries, NOON, lambda one: "gone" not in one.uids, lambda _: False)
    assert [one.uids for one in kept] == [{"kept"}]
