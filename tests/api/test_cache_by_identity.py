from trimtab.api.cache_by_identity import cache_by_identity


def test_an_object_is_computed_once_while_there_is_room() -> None:
    computed: list[list[int]] = []

    def count(numbers: list[int]) -> int:
        computed.append(numbers)
        return len(numbers)

    cached = cache_by_identity(count, max_entries=2)
    shared = [1, 2]
    assert (cached(shared), cached(shared)) == (2, 2)
    assert len(computed) == 1
    assert [cached([]), cached([3]), cached(shared)] == [0, 1, 2]
    assert len(computed) == 4


def test_equal_objects_are_different() -> None:
    cached = cache_by_identity(id, max_entries=100)
    alike = [[0] for _ in range(5)]
    assert [cached(one) for one in alike] == [id(one) for one in alike]
