"""Which states the objects of the driver may have, from what the API server acknowledged."""

from collections.abc import Hashable, Iterator, Mapping

ABSENT = "absent"


class Ledger:
    """The possible values per object: one after an acknowledged write, several after a write without an answer."""

    def __init__(self) -> None:
        self._possible: dict[str, tuple[Hashable, ...]] = {}

    def acknowledge(self, name: str, value: Hashable) -> None:
        """The server confirmed the write: nothing older may show again."""
        self._possible[name] = (value,)

    def attempt(self, name: str, value: Hashable) -> None:
        """The write had no answer: it may be done or not."""
        known = self._possible.get(name, (ABSENT,))
        self._possible[name] = known if value in known else (*known, value)

    def __iter__(self) -> Iterator[str]:
        return iter(self._possible)

    def violations(self, found: Mapping[str, Hashable]) -> Iterator[str]:
        """Objects with a value that no write explains; `found` lacks objects that are absent."""
        for name, possible in sorted(self._possible.items()):
            value = found.get(name, ABSENT)
            if value not in possible:
                yield f"{name} is {value}, but the server acknowledged {' or '.join(map(str, possible))}"
