from trimtab.api.wording import plural, verb


def test_one_thing_is_singular() -> None:
    assert [plural(count, "replica") for count in (0, 1, 2)] == ["0 replicas", "1 replica", "2 replicas"]
    assert plural(2, "copy", "copies") == "2 copies"
    assert [verb(count, "is", "are") for count in (0, 1, 2)] == ["are", "is", "are"]
