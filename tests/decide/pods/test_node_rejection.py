from trimtab.decide.pods.node_rejection import CROWDED, HOPELESS, crowded, hopeless, several, told, words_of


def test_messages_are_counted_without_their_details() -> None:
    reason = crowded(several([told("Insufficient cpu", "1 of 2 free"), told("Too many pods", "")]))
    assert reason.message == "Insufficient cpu - 1 of 2 free; Too many pods"
    assert words_of(reason) == ["Insufficient cpu", "Too many pods"]


def test_codes_tell_whether_removing_pods_may_help() -> None:
    assert (crowded("x").code, hopeless("x", "detail").code) == (CROWDED, HOPELESS)
    assert CROWDED != HOPELESS
