"""Syntax errors of JSON texts with the messages of Go's `encoding/json`, which Kubernetes clients show."""

import re

from trimtab.api.limits import MAX_JSON_ERROR_STEPS

_SPACE = re.compile(rb"[ \t\r\n]*+")
_STRING = re.compile(rb'"[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+)*+')
_HEXADECIMAL = re.compile(rb"u[0-9a-fA-F]{0,3}")
_NUMBER = re.compile(rb"-?(?:0|[1-9]\d*+)(?:\.\d++)?(?:[eE][+-]?\d++)?")
_LITERALS = {0x74: b"true", 0x66: b"false", 0x6E: b"null"}
_ESCAPES = {7: r"\a", 8: r"\b", 9: r"\t", 10: r"\n", 11: r"\v", 12: r"\f", 13: r"\r"}
_CLOSING = {0x7B: 0x7D, 0x5B: 0x5D}
_AFTER = {0x7D: "after object key:value pair", 0x5D: "after array element"}
_QUOTE, _COLON, _COMMA, _MINUS, _BACKSLASH, _BRACE_CLOSED = 0x22, 0x3A, 0x2C, 0x2D, 0x5C, 0x7D


class _JsonSyntaxError(Exception):
    """A syntax error with Go's message."""


def _quote_character(byte: int) -> str:
    if byte == 0x27:
        return r"'\''"
    if byte == 0x22:
        return "'\"'"
    if byte in _ESCAPES:
        return f"'{_ESCAPES[byte]}'"
    if byte < 0x20 or byte >= 0x7F:
        return f"'\\x{byte:02x}'" if byte < 0x80 else f"'{chr(byte)}'"
    return f"'{chr(byte)}'"


class _JsonScanner:
    """A strict scanner that raises at the first byte that Go rejects, or after too many steps; it does not recurse."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        self.offset = 0
        self._closings: list[int] = []
        """The closing brackets that are still missing, the outermost first."""

    def _skip_space(self) -> int:
        match = _SPACE.match(self.text, self.offset)
        self.offset = match.end() if match else self.offset
        if self.offset >= len(self.text):
            raise _JsonSyntaxError("unexpected end of JSON input")
        return self.text[self.offset]

    def _raise_invalid_character(self, context: str) -> None:
        if self.offset >= len(self.text):
            raise _JsonSyntaxError("unexpected end of JSON input")
        raise _JsonSyntaxError(f"invalid character {_quote_character(self.text[self.offset])} {context}")

    def _scan_string(self) -> None:
        match = _STRING.match(self.text, self.offset)
        self.offset = match.end() if match else self.offset
        if self.text[self.offset : self.offset + 1] == b'"':
            self.offset += 1
            return
        if self.text[self.offset : self.offset + 1] == b"\\":
            self.offset += 1
            if digits := _HEXADECIMAL.match(self.text, self.offset):
                self.offset = digits.end()
                self._raise_invalid_character("in \\u hexadecimal character escape")
            self._raise_invalid_character("in string escape code")
        self._raise_invalid_character("in string literal")

    def _scan_literal(self, literal: bytes) -> None:
        for expected in literal:
            if self.text[self.offset : self.offset + 1] != bytes((expected,)):
                self._raise_invalid_character(f"in literal {literal.decode()} (expecting '{chr(expected)}')")
            self.offset += 1

    def _scan_value(self) -> bool:
        """Scan a value; whether it is complete, not a container that has members."""
        first = self._skip_space()
        if closing := _CLOSING.get(first):
            self.offset += 1
            if self._skip_space() == closing:
                self.offset += 1
                return True
            self._closings.append(closing)
            return False
        if first == _QUOTE:
            self._scan_string()
        elif literal := _LITERALS.get(first):
            self._scan_literal(literal)
        elif match := _NUMBER.match(self.text, self.offset):
            self.offset = match.end()
        elif first == _MINUS:
            self.offset += 1
            self._raise_invalid_character("in numeric literal")
        else:
            self._raise_invalid_character("looking for beginning of value")
        return True

    def _scan_key(self) -> None:
        if self._skip_space() != _QUOTE:
            self._raise_invalid_character("looking for beginning of object key string")
        self._scan_string()
        if self._skip_space() != _COLON:
            self._raise_invalid_character("after object key")
        self.offset += 1

    def _is_next_member_expected(self) -> bool:
        """After a value: whether another member of a container follows."""
        while self._closings:
            after, closing = self._skip_space(), self._closings[-1]
            if after not in (closing, _COMMA):
                self._raise_invalid_character(_AFTER[closing])
            self.offset += 1
            if after == _COMMA:
                return True
            self._closings.pop()
        return False

    def scan(self, steps: int) -> bool:
        """Scan the whole text; False when it has more values than `steps`."""
        for _ in range(steps):
            if self._closings and self._closings[-1] == _BRACE_CLOSED:
                self._scan_key()
            if self._scan_value() and not self._is_next_member_expected():
                return True
        return False


def go_json_error(text: bytes) -> str:
    """Go's message for the first syntax error; empty when there is none among the first values of the text."""
    scanner = _JsonScanner(text)
    try:
        if scanner.scan(MAX_JSON_ERROR_STEPS) and _SPACE.fullmatch(text, scanner.offset) is None:
            scanner._skip_space()  # noqa: SLF001 - same module
            return f"invalid character {_quote_character(text[scanner.offset])} after top-level value"
    except _JsonSyntaxError as broken:
        return str(broken)
    return ""
