"""Syntax errors of JSON texts with the messages of Go's `encoding/json`, which Kubernetes clients show."""

import re

_SPACE = b" \t\r\n"
_LITERALS = {0x74: b"true", 0x66: b"false", 0x6E: b"null"}
_ESCAPES = {7: r"\a", 8: r"\b", 9: r"\t", 10: r"\n", 11: r"\v", 12: r"\f", 13: r"\r"}
_NUMBER = re.compile(rb"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")


class _Broken(Exception):
    """A syntax error with Go's message."""


def _character(byte: int) -> str:
    if byte == 0x27:
        return r"'\''"
    if byte == 0x22:
        return "'\"'"
    if byte in _ESCAPES:
        return f"'{_ESCAPES[byte]}'"
    if byte < 0x20 or byte >= 0x7F:
        return f"'\\x{byte:02x}'" if byte < 0x80 else f"'{chr(byte)}'"
    return f"'{chr(byte)}'"


class _Scanner:
    """A strict scanner that raises at the first byte that Go rejects."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        self.at = 0

    def _skip(self) -> int:
        while self.at < len(self.text) and self.text[self.at] in _SPACE:
            self.at += 1
        if self.at >= len(self.text):
            raise _Broken("unexpected end of JSON input")
        return self.text[self.at]

    def _refuse(self, where: str) -> None:
        raise _Broken(f"invalid character {_character(self.text[self.at])} {where}")

    def _string(self) -> None:
        self.at += 1
        while self.at < len(self.text):
            byte = self.text[self.at]
            if byte == 0x22:
                self.at += 1
                return
            if byte == 0x5C:
                self.at += 1
                if self.at < len(self.text) and self.text[self.at] not in b'"\\/bfnrtu':
                    self._refuse("in string escape code")
            elif byte < 0x20:
                self._refuse("in string literal")
            self.at += 1
        raise _Broken("unexpected end of JSON input")

    def value(self, depth: int = 0) -> None:
        first = self._skip()
        if depth > 10_000:
            raise _Broken("exceeded max depth")
        if first == 0x7B:
            self._members(depth)
        elif first == 0x5B:
            self._items(depth)
        elif first == 0x22:
            self._string()
        elif literal := _LITERALS.get(first):
            for expected in literal:
                if self.at >= len(self.text):
                    raise _Broken("unexpected end of JSON input")
                if self.text[self.at] != expected:
                    self._refuse(f"in literal {literal.decode()} (expecting '{chr(expected)}')")
                self.at += 1
        elif match := _NUMBER.match(self.text, self.at):
            self.at = match.end()
        elif first == 0x2D:
            self.at += 1
            self._skip()
            self._refuse("in numeric literal")
        else:
            self._refuse("looking for beginning of value")

    def _members(self, depth: int) -> None:
        self.at += 1
        if self._skip() == 0x7D:
            self.at += 1
            return
        while True:
            if self._skip() != 0x22:
                self._refuse("looking for beginning of object key string")
            self._string()
            if self._skip() != 0x3A:
                self._refuse("after object key")
            self.at += 1
            self.value(depth + 1)
            after = self._skip()
            if after == 0x7D:
                self.at += 1
                return
            if after != 0x2C:
                self._refuse("after object key:value pair")
            self.at += 1

    def _items(self, depth: int) -> None:
        self.at += 1
        if self._skip() == 0x5D:
            self.at += 1
            return
        while True:
            self.value(depth + 1)
            after = self._skip()
            if after == 0x5D:
                self.at += 1
                return
            if after != 0x2C:
                self._refuse("after array element")
            self.at += 1


def complaint(text: bytes) -> str:
    """Go's message for the first syntax error in `text`; empty when Go accepts it."""
    scanner = _Scanner(text)
    try:
        scanner.value()
        if text[scanner.at :].strip(_SPACE):
            scanner._skip()  # noqa: SLF001 - same module
            return f"invalid character {_character(text[scanner.at])} after top-level value"
    except _Broken as broken:
        return str(broken)
    except RecursionError:
        return "exceeded max depth"
    return ""
