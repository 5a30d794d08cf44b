"""The syntax of Go's regular expressions (RE2 with Perl's extensions), parsed into a tree, with Go's error messages."""

import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

_MAX_REPEAT = 1000
"""The largest count of a repetition, also of nested ones together, as in Go."""
_MAX_NESTING = 100
_REPEAT = re.compile(r"\{(0|[1-9]\d{0,8})(?:(,)(0|[1-9]\d{0,8})?)?\}", re.ASCII)
_NAME = re.compile(r"\(\?P?<(\w+)>", re.ASCII)
_FLAGS = re.compile(r"\(\?([imsU]*)(?:-([imsU]+))?([:)])")
_OCTAL = re.compile(r"[1-7][0-7]{1,2}|0[0-7]{0,2}")
_HEXADECIMAL = re.compile(r"x(?:([0-9A-Fa-f]{2})|\{([0-9A-Fa-f]{1,8})\})")
_PROPERTY = re.compile(r"[pP](?:([A-Za-z])|\{(\^?)([A-Za-z_]+)\})")
_POSIX = re.compile(r"\[:(\^?)(\w+):\]")
_CONTROLS = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_CATEGORIES = frozenset(
    [
        "Cc",
        "Cf",
        "Co",
        "Cs",
        "Ll",
        "Lm",
        "Lo",
        "Lt",
        "Lu",
        "Mc",
        "Me",
        "Mn",
        "Nd",
        "Nl",
        "No",
        "Pc",
        "Pd",
        "Pe",
        "Pf",
        "Pi",
        "Po",
        "Ps",
        "Sc",
        "Sk",
        "Sm",
        "So",
        "Zl",
        "Zp",
        "Zs",
        "L",
        "M",
        "N",
        "P",
        "S",
        "Z",
        "C",
    ]
)

CharPredicate: TypeAlias = Callable[[str], bool]
"""Whether a character is meant."""


class InvalidPattern(ValueError):
    """Go cannot parse the pattern; the message is Go's."""


class Char(NamedTuple):
    """One character."""

    accepts: CharPredicate


class At(NamedTuple):
    """A position: `start`, `line start`, `end`, `line end`, `boundary` or `no boundary`."""

    condition: str


class Choice(NamedTuple):
    branches: "tuple[Items, ...]"


class Repeat(NamedTuple):
    least: int
    most: int | None
    items: "Items"
    lazy: bool


Node: TypeAlias = "Char | At | Choice | Repeat | RegexpGroup"
Items: TypeAlias = tuple[Node, ...]


class RegexpGroup(NamedTuple):
    items: Items


def is_word_char(char: str) -> bool:
    return char == "_" or (char.isascii() and char.isalnum())


def _ranges(*pairs: str) -> CharPredicate:
    return lambda char: any(pair[0] <= char <= pair[-1] for pair in pairs)


def _is_space(char: str) -> bool:
    return char != "" and char in " \t\n\r\f"


_PERL_CLASSES: dict[str, CharPredicate] = {"d": _ranges("09"), "s": _is_space, "w": is_word_char}
_POSIX_CLASSES: dict[str, CharPredicate] = {
    "alnum": _ranges("09", "AZ", "az"),
    "alpha": _ranges("AZ", "az"),
    "ascii": _ranges("\x00\x7f"),
    "blank": _ranges("\t", " "),
    "cntrl": _ranges("\x00\x1f", "\x7f"),
    "digit": _ranges("09"),
    "graph": _ranges("!~"),
    "lower": _ranges("az"),
    "print": _ranges(" ~"),
    "punct": _ranges("!/", ":@", "[`", "{~"),
    "space": _ranges("\t\r", " "),
    "upper": _ranges("AZ"),
    "word": is_word_char,
    "xdigit": _ranges("09", "AF", "af"),
}


def _negate(accepts: CharPredicate) -> CharPredicate:
    return lambda char: not accepts(char)


def _has_category(name: str, char: str) -> bool:
    category = unicodedata.category(char)
    return category.startswith(name) and category != "Cn"  # Go's C does not contain unassigned characters


def _any_char(char: str) -> bool:
    return True


def _fold_case(accepts: CharPredicate) -> CharPredicate:
    """Regardless of case, also inside a class of Unicode."""

    def accepts_any_case(char: str) -> bool:
        return any(len(form) == 1 and accepts(form) for form in (char, char.lower(), char.upper()))

    return accepts_any_case


def parse_go_pattern(pattern: str) -> Items:
    """The tree of a pattern; raises `InvalidPattern`."""
    return _RegexpParser(pattern).parse()


class _RegexpParser:
    """A recursive descent over the groups of a pattern."""

    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._at = 0
        self._flags: frozenset[str] = frozenset()
        self._names: set[str] = set()
        self._nesting = 0

    def parse(self) -> Items:
        items = self._parse_alternatives()
        if self._at < len(self._text):
            raise InvalidPattern(f"unexpected ): `{self._text}`")
        return items

    def _next_is(self, characters: str) -> bool:
        return self._at < len(self._text) and self._text[self._at] in characters

    def _parse_alternatives(self) -> Items:
        branches = [self._parse_sequence()]
        while self._next_is("|"):
            self._at += 1
            branches.append(self._parse_sequence())
        return branches[0] if len(branches) == 1 else (Choice(tuple(branches)),)

    def _parse_sequence(self) -> Items:
        items: list[Node] = []
        repeated_at = -1
        """Where the repetition began that ends here; another one must not follow it."""
        while self._at < len(self._text) and not self._next_is("|)"):
            start = self._at
            bounds = self._parse_repetition()
            if bounds is None:
                items += self._parse_item()
                repeated_at = -1
                continue
            operator = self._text[start : self._at]
            if repeated_at >= 0:
                raise InvalidPattern(f"invalid nested repetition operator: `{self._text[repeated_at : self._at]}`")
            if not items:
                raise InvalidPattern(f"missing argument to repetition operator: `{operator}`")
            lazy = self._next_is("?")
            self._at += lazy
            repeated_at = start
            items[-1] = Repeat(*bounds, (items[-1],), lazy != ("U" in self._flags))
            if _repeat_count(items[-1]) > _MAX_REPEAT:
                raise InvalidPattern(f"invalid repeat count: `{operator}`")
        return tuple(items)

    def _parse_repetition(self) -> tuple[int, int | None] | None:
        if self._next_is("*+?"):
            char = self._text[self._at]
            self._at += 1
            return (int(char == "+"), 1 if char == "?" else None)
        found = _REPEAT.match(self._text, self._at)
        if found is None:
            return None
        least = int(found[1])
        most = (int(found[3]) if found[3] else None) if found[2] else least
        if least > _MAX_REPEAT or (most is not None and not least <= most <= _MAX_REPEAT):
            raise InvalidPattern(f"invalid repeat count: `{found[0]}`")
        self._at = found.end()
        return least, most

    def _char(self, accepts: CharPredicate) -> Char:
        return Char(_fold_case(accepts) if "i" in self._flags else accepts)

    def _literal(self, char: str) -> Char:
        return self._char(partial(_is_same, char))

    def _parse_item(self) -> list[Node]:
        char = self._text[self._at]
        if char == "(":
            return self._parse_group()
        if char == "[":
            return [self._parse_class()]
        if char == "\\":
            return self._parse_escape()
        self._at += 1
        if char == ".":
            return [Char(_any_char if "s" in self._flags else _negate(partial(_is_same, "\n")))]
        if char in "^$":
            side = "start" if char == "^" else "end"
            return [At(f"line {side}" if "m" in self._flags else side)]
        return [self._literal(char)]

    def _parse_group(self) -> list[Node]:
        """A group, or nothing for flags that hold up to the end of the group around them."""
        start, outer = self._at, self._flags
        if self._text.startswith("(?", start):
            if self._parse_group_flags(start):
                return []
        else:
            self._at += 1
        self._nesting += 1
        if self._nesting > _MAX_NESTING:
            raise InvalidPattern(f"expression nests too deeply: `{self._text}`")
        items = self._parse_alternatives()
        self._nesting -= 1
        if not self._next_is(")"):
            raise InvalidPattern(f"missing closing ): `{self._text}`")
        self._at += 1
        self._flags = outer
        return [RegexpGroup(items)]

    def _parse_group_flags(self, start: int) -> bool:
        """Read what follows `(?`; whether the group ends with it."""
        if self._text.startswith(("(?P<", "(?<"), start) and not self._text.startswith(("(?<=", "(?<!"), start):
            name = _NAME.match(self._text, start)
            if name is None or name[1] in self._names:
                end = self._text.find(">", start)
                raise InvalidPattern(f"invalid named capture: `{self._text[start : end + 1 or None]}`")
            self._names.add(name[1])
            self._at = name.end()
            return False
        found = _FLAGS.match(self._text, start)
        if found is None:
            wrong = re.compile(r"\(\?(?:<|[imsU-]*).?", re.DOTALL).match(self._text, start)
            raise InvalidPattern(f"invalid or unsupported Perl syntax: `{wrong[0] if wrong else ''}`")
        self._flags = (self._flags | set(found[1])) - set(found[2] or "")
        self._at = found.end()
        return found[3] == ")"

    def _parse_escape(self) -> list[Node]:
        follower = self._text[self._at + 1 : self._at + 2]
        positions = {"A": "start", "z": "end", "b": "boundary", "B": "no boundary"}
        if follower in positions and follower:
            self._at += 2
            return [At(positions[follower])]
        if follower == "Q":
            quoted, _, _ = self._text[self._at + 2 :].partition("\\E")
            self._at = min(self._at + 2 + len(quoted) + 2, len(self._text))
            return [self._literal(char) for char in quoted]
        if (accepts := self._parse_class_escape()) is not None:
            return [self._char(accepts)]
        return [self._literal(self._parse_char_escape())]

    def _parse_class_escape(self) -> CharPredicate | None:
        """A class such as `\\d` or `\\p{L}`; None when another escape follows."""
        follower = self._text[self._at + 1 : self._at + 2]
        if follower and follower in "dswDSW":
            self._at += 2
            accepts = _PERL_CLASSES[follower.lower()]
            return _negate(accepts) if follower.isupper() else accepts
        if not follower or follower not in "pP":
            return None
        found = _PROPERTY.match(self._text, self._at + 1)
        name = (found[1] or found[3]) if found else ""
        if found is None or (name not in _CATEGORIES and name != "Any"):
            end = found.end() if found else self._at + 2
            raise InvalidPattern(f"invalid character class range: `{self._text[self._at : end]}`")
        self._at = found.end()
        accepts = _any_char if name == "Any" else partial(_has_category, name)
        return _negate(accepts) if (follower == "P") != (found[2] == "^") else accepts

    def _parse_char_escape(self) -> str:
        """The character that an escape stands for."""
        start = self._at
        follower = self._text[start + 1 : start + 2]
        if not follower:
            raise InvalidPattern("trailing backslash at end of expression: ``")
        self._at += 2
        if octal := _OCTAL.match(self._text, start + 1):
            self._at = octal.end()
            return chr(int(octal[0], 8))
        if digits := _HEXADECIMAL.match(self._text, start + 1):
            code = int(digits[1] or digits[2], 16)
            if code <= 0x10FFFF:
                self._at = digits.end()
                return chr(code)
        if follower in _CONTROLS:
            return _CONTROLS[follower]
        if follower.isascii() and not follower.isalnum():
            return follower
        raise InvalidPattern(f"invalid escape sequence: `{self._text[start : self._at]}`")

    def _parse_class(self) -> Char:
        start = self._at
        self._at += 1
        negated = self._next_is("^")
        self._at += negated
        members: list[CharPredicate] = []
        ranges: list[tuple[str, str]] = []
        while not self._next_is("]") or not (members or ranges):
            if self._at >= len(self._text):
                raise InvalidPattern(f"missing closing ]: `{self._text[start:]}`")
            if (accepts := self._parse_named_class()) is not None:
                members.append(accepts)
            else:
                ranges.append(self._parse_range(start))
        self._at += 1
        accepts = partial(_is_member, tuple(ranges), tuple(members))
        accepts = _fold_case(accepts) if "i" in self._flags else accepts
        return Char(_negate(accepts) if negated else accepts)

    def _parse_named_class(self) -> CharPredicate | None:
        """A class inside a class; None when a character follows."""
        if posix := _POSIX.match(self._text, self._at):
            if posix[2] not in _POSIX_CLASSES:
                raise InvalidPattern(f"invalid character class range: `{posix[0]}`")
            self._at = posix.end()
            accepts = _POSIX_CLASSES[posix[2]]
            return _negate(accepts) if posix[1] else accepts
        return self._parse_class_escape() if self._next_is("\\") else None

    def _parse_range(self, class_start: int) -> tuple[str, str]:
        start = self._at
        low = high = self._parse_class_char(class_start)
        if self._next_is("-") and self._text[self._at + 1 : self._at + 2] not in ("", "]"):
            self._at += 1
            high = self._parse_class_char(class_start)
        if high < low:
            raise InvalidPattern(f"invalid character class range: `{self._text[start : self._at]}`")
        return low, high

    def _parse_class_char(self, class_start: int) -> str:
        if self._at >= len(self._text):
            raise InvalidPattern(f"missing closing ]: `{self._text[class_start:]}`")
        if self._next_is("\\"):
            return self._parse_char_escape()
        self._at += 1
        return self._text[self._at - 1]


def _is_same(wanted: str, char: str) -> bool:
    return char == wanted


def _is_member(ranges: Sequence[tuple[str, str]], members: Sequence[CharPredicate], char: str) -> bool:
    return any(low <= char <= high for low, high in ranges) or any(accepts(char) for accepts in members)


def _repeat_count(node: Node) -> int:
    """How often the innermost expression of nested repetitions is repeated at most."""
    if isinstance(node, Choice):
        return max((_repeat_count(item) for branch in node.branches for item in branch), default=1)
    if isinstance(node, RegexpGroup):
        return max(map(_repeat_count, node.items), default=1)
    if isinstance(node, Repeat):
        count = node.least if node.most is None else node.most
        return max(count, 1) * max(map(_repeat_count, node.items), default=1)
    return 1
