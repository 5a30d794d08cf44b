"""The user of a request and the warnings for its response."""

from typing import NamedTuple

import msgspec

ANONYMOUS = "system:anonymous"
AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
MASTERS = "system:masters"


class User(NamedTuple):
    """The authenticated or impersonated user."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def user_info(self) -> dict[str, object]:
        """The `UserInfo` of reviews and webhooks."""
        info: dict[str, object] = {"username": self.name}
        if self.uid:
            info["uid"] = self.uid
        if self.groups:
            info["groups"] = list(self.groups)
        if self.extra:
            info["extra"] = {key: list(values) for key, values in self.extra}
        return info


SYSTEM = User("system:apiserver", (MASTERS, AUTHENTICATED))


class Caller(msgspec.Struct):
    """The user and client of one request; collects the warnings for the response headers."""

    user: User = SYSTEM
    user_agent: str = "trimtab"
    """The field manager when the request names none."""
    warnings: list[str] = []
    verb: str = ""
    """The verb that RBAC allowed; empty for callers in this process, which RBAC does not restrict."""

    def warn(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)
