"""The user of a request and the warnings for its response."""

from typing import NamedTuple

import msgspec

from trimtab.api.limits import (
    MAX_AUDIT_ANNOTATION_CHARACTERS,
    MAX_AUDIT_ANNOTATIONS,
    MAX_SHORTENED_WARNING_CHARACTERS,
    MAX_WARNING_CHARACTERS,
    MAX_WARNINGS,
)

ANONYMOUS = "system:anonymous"
AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
MASTERS = "system:masters"
UNNAMED_AGENT = "unknown"
"""The user agent of a client that sends none."""


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
    """What the response says; clients cannot read headers of any length, so the total is bounded."""
    verb: str = ""
    """The verb that RBAC allowed; empty for callers in this process, which RBAC does not restrict."""
    sends_large_object: bool = False
    """Whether the body of the request takes long to process."""
    annotations: dict[str, str] = {}
    """What admission says about the request in the audit log."""
    _characters: int = 0
    _shortens: bool = False

    def annotate(self, key: str, value: str) -> None:
        """Add to the audit log; values of one key follow each other, and what is too long is cut off."""
        earlier = self.annotations.get(key)
        if not self.verb or (earlier is None and len(self.annotations) >= MAX_AUDIT_ANNOTATIONS):
            return  # writes of this process are not recorded
        joined = value if earlier is None else f"{earlier}, {value}"
        self.annotations[key] = joined[:MAX_AUDIT_ANNOTATION_CHARACTERS]

    def warn(self, text: str) -> None:
        """Add a warning. Once all together are too long, each is shortened, and what does not fit is dropped."""
        if len(self.warnings) >= MAX_WARNINGS or (self._shortens and self._characters >= MAX_WARNING_CHARACTERS):
            return
        text = text[:MAX_SHORTENED_WARNING_CHARACTERS] if self._shortens else text
        if not text or text in self.warnings:
            return
        self.warnings.append(text)
        self._characters += len(text)
        if self._characters > MAX_WARNING_CHARACTERS and not self._shortens:
            self._shortens = True
            self.warnings[:] = dict.fromkeys(known[:MAX_SHORTENED_WARNING_CHARACTERS] for known in self.warnings)
            self._characters = sum(map(len, self.warnings))
