"""Syntax errors of JSON texts with the messages of Go's `encoding/json`, which Kubernetes clients show."""

import re

_SPACE = b" \t\r\n"
_LITERALS = {0x74: b"true", 0x66: b"false", 0x6E: b"null"}
_ESCAPES = {7: r"\a", 8: r"\b", 9: r"\t", 10: r"\n", 11: r"\v", 12: r"\f", 13: r"\r"}
_NUMBER = re.compile(rb"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")


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
    """A strict scanner that raises at the first byte that Go rejects."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        self.offset = 0

    def _skip_space(self) -> int:
        while self.offset < len(self.text) and self.text[self.offset] in _SPACE:
            self.offset += 1
        if self.offset >= len(self.text):
            raise _JsonSyntaxError("unexpected end of JSON input")
        return self.text[self.offset]

    def _raise_invalid_character(self, context: str) -> None:
        raise _JsonSyntaxError(f"invalid character {_quote_character(self.text[self.offset])} {context}")

    def _scan_string(self) -> None:
        self.offset += 1
        while self.offset < len(self.text):
            byte = self.text[self.offset]
            if byte == 0x22:
                self.offset += 1
                return
            if byte == 0x5C:
                self.offset += 1
                if self.offset < len(self.text) and self.text[self.offset] not in b'"\\/bfnrtu':
                    self._raise_invalid_character("in string escape code")
            elif byte < 0x20:
                self._raise_invalid_character("in string literal")
            self.offset += 1
        raise _JsonSyntaxError("unexpected end of JSON input")

    def scan_value(self, depth: int = 0) -> None:
        first = self._skip_space()
        if depth > 10_000:
            raise _JsonSyntaxError("exceeded max depth")
        if first == 0x7B:
            self._scan_object(depth)
        elif first == 0x5B:
            self._scan_array(depth)
        elif first == 0x22:
            self._scan_string()
        elif literal := _LITERALS.get(first):
            for expected in literal:
                if self.offset >= len(self.text):
                    raise _JsonSyntaxError("unexpected end of JSON input")
                if self.text[self.offset] != expected:
                    self._raise_invalid_character(f"in literal {literal.decode()} (expecting '{chr(expected)}')")
                self.offset += 1
        elif match := _NUMBER.match(self.text, self.offset):
            self.offset = match.end()
        elif first == 0x2D:
            self.offset += 1
            self._skip_space()
            self._raise_invalid_character("in numeric literal")
        else:
            self._raise_invalid_character("looking for beginning of value")

    def _scan_object(self, depth: int) -> None:
        self.offset += 1
        if self._skip_space() == 0x7D:
            self.offset += 1
            return
        while True:
            if self._skip_space() != 0x22:
                self._raise_invalid_character("looking for beginning of object key string")
            self._scan_string()
            if self._skip_space() != 0x3A:
                self._raise_invalid_character("after object key")
            self.offset += 1
            self.scan_value(depth + 1)
            after = self._skip_space()
            if after == 0x7D:
                self.offset += 1
                return
            if after != 0x2C:
                self._raise_invalid_character("after object key:value pair")
            self.offset += 1

    def _scan_array(self, depth: int) -> None:
        self.offset += 1
        if self._skip_space() == 0x5D:
            self.offset += 1
            return
        while True:
            self.scan_value(depth + 1)
            after = self._skip_space()
            if after == 0x5D:
                self.offset += 1
                return
            if after != 0x2C:
                self._raise_invalid_character("after array element")
            self.offset += 1


def go_json_error(text: bytes) -> str:
    """Go's message for the first syntax error in `text`; empty when Go accepts it."""
    scanner = _JsonScanner(text)
    try:
        scanner.scan_value()
        if text[scanner.offset :].strip(_SPACE):
            scanner._skip_space()  # noqa: SLF001 - same module
            return f"invalid character {_quote_character(text[scanner.offset])} after top-level value"
    except _JsonSyntaxError as broken:
        return str(broken)
    except RecursionError:
        return "exceeded max depth"
    return ""
