from trimtab.api.identity_cache import IdentityCache


def test_an_object_is_computed_once() -> None:
    seen: list[list[int]] = []

    def count(numbers: list[int]) -> int:
        seen.append(numbers)
        return len(numbers)

    cached = IdentityCache(count, max_entries=2)
    shared = [1, 2]
    assert (cached(shared), cached(shared)) == (2, 2)
    assert seen == [shared]


def test_equal_objects_are_different_and_old_ones_are_dropped() -> None:
    cached = IdentityCache(id, max_entries=2)
    kept = [[number] for number in range(5)]
    assert [cached(one) for one in kept] == [id(one) for one in kept]
    assert cached([0]) != cached(kept[0])
    assert len(cached._entries) <= 2
