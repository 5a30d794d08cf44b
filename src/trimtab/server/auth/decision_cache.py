"""Remembers decisions of the authorizer in a bounded number of bytes."""

from trimtab.server.auth.user import User

_LIMIT = 8 * 1024 * 1024
_ENTRY_LIMIT = 2 * 1024
"""Requests with longer names or paths are decided each time."""
_OVERHEAD = 600
"""Bytes of an entry beside its text: the tuples, the strings' headers and the place in the table."""


class DecisionCache:
    """Decisions by user and action; it is emptied when it is full, because callers choose what is in it."""

    def __init__(self) -> None:
        self._decisions: dict[tuple[User, tuple[str, ...]], bool] = {}
        self.size = 0
        """An upper bound of the bytes of all entries."""

    def __len__(self) -> int:
        return len(self._decisions)

    def get(self, user: User, action: tuple[str, ...]) -> bool | None:
        return self._decisions.get((user, action))

    def add(self, user: User, action: tuple[str, ...], allowed: bool) -> None:
        size = _OVERHEAD + 4 * (_text_length(user) + sum(map(len, action)))  # up to four bytes per character
        if size > _ENTRY_LIMIT + _OVERHEAD:
            return
        if self.size + size > _LIMIT:
            self.clear()
        self.size += size
        self._decisions[user, action] = allowed

    def clear(self) -> None:
        self._decisions.clear()
        self.size = 0


def _text_length(user: User) -> int:
    extra = sum(len(key) + sum(map(len, values)) for key, values in user.extra)
    return len(user.name) + len(user.uid) + sum(map(len, user.groups)) + extra
