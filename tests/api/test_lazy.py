"""Properties that are computed on first access."""

from trimtab.api.lazy import lazily


class Counter:
    def __init__(self) -> None:
        self.calls = 0

    @lazily
    def value(self) -> int:
        self.calls += 1
        return self.calls


def test_property_is_computed_once_per_instance() -> None:
    counter, other = Counter(), Counter()
    assert (counter.value, counter.value, counter.calls) == (1, 1, 1)
    assert other.calls == 0
