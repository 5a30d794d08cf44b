"""Who asks, and what they should be told beside the answer."""

from typing import NamedTuple

import msgspec

ANONYMOUS = "system:anonymous"
AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
MASTERS = "system:masters"


class User(NamedTuple):
    """As authentication found them, or as they chose to act."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def info(self) -> dict[str, object]:
        """The `UserInfo` of reviews and of webhooks."""
        found: dict[str, object] = {"username": self.name}
        if self.uid:
            found["uid"] = self.uid
        if self.groups:
            found["groups"] = list(self.groups)
        if self.extra:
            found["extra"] = {key: list(values) for key, values in self.extra}
        return found


SYSTEM = User("system:apiserver", (MASTERS, AUTHENTICATED))


class Caller(msgspec.Struct):
    """One request's author; warnings gather here and travel as headers."""

    user: User = SYSTEM
    agent: str = "trimtab"
    """The field manager when the request names none."""
    warnings: list[str] = []

    def warn(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)
