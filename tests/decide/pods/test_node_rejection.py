from trimtab.decide.pods.node_rejection import (
    UNRESOLVABLE,
    UNSCHEDULABLE,
    join_messages,
    messages_of,
    unresolvable_reason,
    unschedulable_reason,
    with_detail,
)


def test_messages_are_counted_without_their_details() -> None:
    reason = unschedulable_reason(
        join_messages([with_detail("Insufficient cpu", "1 of 2 free"), with_detail("Too many pods", "")])
    )
    assert reason.message == "Insufficient cpu - 1 of 2 free; Too many pods"
    assert messages_of(reason) == ["Insufficient cpu", "Too many pods"]


def test_codes_tell_whether_removing_pods_may_help() -> None:
    assert (unschedulable_reason("x").code, unresolvable_reason("x", "detail").code) == (UNSCHEDULABLE, UNRESOLVABLE)
    assert UNSCHEDULABLE != UNRESOLVABLE
