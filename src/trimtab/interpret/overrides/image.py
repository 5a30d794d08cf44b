"""Parses and changes image references: host / repository : tag, or @ digest."""

import re
from typing import NamedTuple

_WORD = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_HOST_PART = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_HOST = rf"(?:{_HOST_PART}(?:\.{_HOST_PART})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
_TAG = r"[\w][\w.-]{0,127}"
_DIGEST = r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}"
_NAME = rf"(?:{_HOST}/)?{_WORD}(?:/{_WORD})*"
_REFERENCE = re.compile(rf"({_NAME})(?::({_TAG}))?(?:@({_DIGEST}))?", re.ASCII)
_TAG_ONLY, _DIGEST_ONLY = re.compile(_TAG, re.ASCII), re.compile(_DIGEST, re.ASCII)
_MAX_NAME_LENGTH = 255
_DIGEST_LENGTHS = {"sha256": 64, "sha384": 96, "sha512": 128}


class InvalidImage(ValueError):
    """The text is not an image reference."""


class Image(NamedTuple):
    hostname: str
    repository: str
    tag: str = ""
    digest: str = ""

    def __str__(self) -> str:
        name = f"{self.hostname}/{self.repository}" if self.hostname else self.repository
        if self.tag:
            return f"{name}:{self.tag}"
        return f"{name}@{self.digest}" if self.digest else name

    def with_tag_or_digest(self, text: str) -> "Image":
        """A tag or a digest replaces the current one; anything else is ignored."""
        if _TAG_ONLY.fullmatch(text):
            return self._replace(tag=text, digest="")
        if _DIGEST_ONLY.fullmatch(text):
            return self._replace(tag="", digest=text)
        return self


def _is_complete_digest(digest: str) -> bool:
    algorithm, _, digits = digest.partition(":")
    return not digest or (len(digits) == _DIGEST_LENGTHS.get(algorithm) and digits == digits.lower())


def parse_image(text: str) -> Image:
    match = _REFERENCE.fullmatch(text)
    if match is None or len(match[1]) > _MAX_NAME_LENGTH or not _is_complete_digest(match[3] or ""):
        raise InvalidImage(f"{text!r} is not an image reference")
    first, slash, rest = match[1].partition("/")
    has_host = slash and ("." in first or ":" in first or first == "localhost")
    host, repository = (first, rest) if has_host else ("", match[1])
    tag = match[2] or ""
    return Image(host, repository, tag, "" if tag else match[3] or "")


def override_image(text: str, component: str, operator: str, value: str) -> str:
    """Apply one `imageOverrider` to one image."""
    image = parse_image(text)
    old = {"Registry": image.hostname, "Repository": image.repository, "Tag": image.tag or image.digest}.get(component)
    if old is None:
        raise InvalidImage(f"an image has no component {component!r}; it has Registry, Repository and Tag")
    new = {"add": old + value, "replace": value, "remove": ""}.get(operator, old)
    if component == "Registry":
        return str(image._replace(hostname=new))
    if component == "Repository":
        return str(image._replace(repository=new))
    return str(image._replace(tag="", digest="") if operator == "remove" else image.with_tag_or_digest(new))
