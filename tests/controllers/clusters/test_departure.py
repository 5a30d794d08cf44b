"""The states of a cluster that is being emptied."""

from builders import NOON, cluster
from views import FakeView

from trimtab.api.profile import TRIMTAB, UPSTREAM
from trimtab.controllers.clusters.departure import (
    is_any_emptied,
    is_drained,
    is_drained_to_leave,
    is_forced_out,
    is_leaving,
)


def changed(**metadata):
    subject = cluster("m1")
    return subject.but(metadata=subject.metadata.but(**metadata))


def test_deleted_cluster_is_drained_before_it_leaves_but_not_upstream() -> None:
    deleted = changed(deletion_timestamp=NOON)
    for state in (is_drained, is_drained_to_leave, is_leaving):
        assert (state(deleted, TRIMTAB), state(deleted, UPSTREAM), state(cluster("m1"), TRIMTAB)) == (
            True,
            False,
            False,
        )


def test_drain_for_unjoin_is_marked_in_the_annotation() -> None:
    plain, unjoin = ({"trimtab.dev/drain": text} for text in ("2026-03-01T12:00:00+00:00", "2026-03-01 leave"))
    assert [is_leaving(changed(annotations=one), TRIMTAB) for one in (plain, unjoin)] == [False, True]
    assert [is_drained(changed(annotations=one), TRIMTAB) for one in (plain, unjoin)] == [True, True]


def test_force_counts_only_for_a_deleted_cluster() -> None:
    force = {"trimtab.dev/force-leave": "true"}
    assert not is_forced_out(changed(annotations=force), TRIMTAB)
    assert not is_forced_out(changed(deletion_timestamp=NOON), TRIMTAB)
    assert is_forced_out(changed(annotations=force, deletion_timestamp=NOON), TRIMTAB)
    assert not is_forced_out(changed(annotations=force, deletion_timestamp=NOON), UPSTREAM)


def test_upstream_drains_no_cluster_and_a_cluster_that_is_gone_is_not_drained() -> None:
    drained = changed(annotations={"trimtab.dev/drain": "2026-03-01T12:00:00+00:00"})
    assert is_drained(drained, TRIMTAB)
    assert not is_drained(drained, UPSTREAM)
    assert not is_drained(None, TRIMTAB)
    assert not is_forced_out(None, TRIMTAB)


def test_one_cluster_that_is_drained_or_deleted_is_found_among_others() -> None:
    drained = changed(annotations={"trimtab.dev/drain": "2026-03-01T12:00:00+00:00"})
    for departing, found in ((drained, True), (changed(deletion_timestamp=NOON), True), (changed(), False)):
        assert is_any_emptied(FakeView([cluster("m2"), departing])) == found
