"""The expression language of stories: paths into objects of the host and the members, and comparisons of them."""

import re
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple, TypeAlias

from trimtab.api.value import Raw
from trimtab.errors import InputError

HOST = ""
TOKEN = re.compile(
    r"""\s*(?:
      (?P<ref>(?:[a-z0-9*?][a-z0-9*?-]*:)?[A-Z][A-Za-z0-9]*/[a-z0-9*?-]+(?:/[A-Za-z0-9*?:-]+)?)
    | (?P<number>-?[0-9]+(?:\.[0-9]+)?(?![\w-]))
    | "(?P<text>[^"]*)"
    | (?P<op>==|!=|<=|>=|<|>|=)
    | (?P<mark>[()\[\],.+])
    | (?P<word>[A-Za-z_][\w-]*)
    | (?P<minus>-)
    )""",
    re.VERBOSE,
)


class ValueList(list[Any]):
    """The values of several objects; a path applied to it is applied to each of them."""


class ObjectPattern(NamedTuple):
    """A pattern for objects: `member1:Pod/default/web-*`, `Cluster/member1`; members and names may have wildcards."""

    cluster: str
    kind: str
    namespace: str | None
    """None when the text has no namespace."""
    name: str

    @property
    def has_wildcard(self) -> bool:
        return any("*" in text or "?" in text for text in (self.cluster, self.namespace or "", self.name))

    def matches(self, obj: Raw) -> bool:
        metadata = obj["metadata"]
        namespace = metadata.get("namespace", "")
        return fnmatchcase(metadata["name"], self.name) and (
            not namespace or fnmatchcase(namespace, "default" if self.namespace is None else self.namespace)
        )

    def __str__(self) -> str:
        return "/".join(part for part in (self.kind, self.namespace, self.name) if part)


FindObjects: TypeAlias = Callable[[ObjectPattern], Sequence[Raw]]
"""Returns the objects that match a pattern."""
Evaluate: TypeAlias = Callable[[FindObjects], Any]


class Expression:
    """One parsed expression; it can be evaluated many times."""

    def __init__(self, text: str) -> None:
        self.text = text
        reader = _ExpectationParser(text)
        self._evaluate = reader.parse()
        self.patterns: tuple[ObjectPattern, ...] = tuple(dict.fromkeys(reader.patterns))
        self.terms: tuple[tuple[str, Evaluate], ...] = tuple(reader.terms)

    def value(self, find: FindObjects) -> Any:
        return self._evaluate(find)

    def is_true(self, find: FindObjects) -> bool:
        value = self._evaluate(find)
        return bool(value) and value != "False"

    def term_values(self, find: FindObjects) -> Iterator[tuple[str, Any]]:
        """The text and the value of every term, to show why an expression is false."""
        for text, evaluate in self.terms:
            yield text, evaluate(find)


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


class _ExpectationParser:
    """A recursive-descent parser."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(self._tokenize())
        self._next = 0
        self.patterns: list[ObjectPattern] = []
        self.terms: list[tuple[str, Evaluate]] = []

    def _tokenize(self) -> Iterator[_Token]:
        at = 0
        while self._text[at:].strip():
            match = TOKEN.match(self._text, at)
            if match is None:
                raise InputError(f"{self._text!r}: unexpected text: {self._text[at:].strip()!r}")
            kind = match.lastgroup or ""
            yield _Token(kind, match[kind], match.start(kind))
            at = match.end()

    def _peek(self) -> _Token:
        return self._tokens[self._next] if self._next < len(self._tokens) else _Token("end", "", len(self._text))

    def _accept(self, *texts: str, kind: str = "") -> _Token | None:
        token = self._peek()
        if (token.text in texts and token.kind != "text") or (kind and token.kind == kind):
            self._next += 1
            return token
        return None

    def _require(self, text: str) -> None:
        if self._accept(text) is None:
            raise InputError(f"{self._text!r}: expected {text!r} before {self._text[self._peek().at :]!r}")

    def parse(self) -> Evaluate:
        if not self._tokens:
            raise InputError("the expression is empty")
        result = self._parse_or()
        if self._peek().kind != "end":
            raise InputError(f"{self._text!r}: unexpected {self._text[self._peek().at :]!r}")
        return result

    def _parse_or(self) -> Evaluate:
        sides = [self._parse_and()]
        while self._accept("or"):
            sides.append(self._parse_and())
        return sides[0] if len(sides) == 1 else lambda find: any(side(find) for side in sides)

    def _parse_and(self) -> Evaluate:
        sides = [self._parse_not()]
        while self._accept("and"):
            sides.append(self._parse_not())
        return sides[0] if len(sides) == 1 else lambda find: all(side(find) for side in sides)

    def _parse_not(self) -> Evaluate:
        if self._accept("not"):
            inner = self._parse_not()
            return lambda find: not inner(find)
        return self._parse_comparison()

    def _parse_comparison(self) -> Evaluate:
        left = self._parse_sum()
        if operator := self._accept("==", "!=", "<=", ">=", "<", ">", "in"):
            right = self._parse_sum()
            compare = OPERATORS[operator.text]
            return lambda find: compare_values(left(find), compare, right(find))
        return left

    def _parse_sum(self) -> Evaluate:
        result = self._parse_reported_term()
        while sign := self._accept("+") or self._accept(kind="minus"):
            result = _add(result, self._parse_reported_term(), 1 if sign.text == "+" else -1)
        return result

    def _parse_reported_term(self) -> Evaluate:
        """A term; its text is kept, so that its value can be shown when the expression is false."""
        start, constant = self._peek().at, self._peek().kind in ("number", "text")
        result = self._parse_term()
        if not constant:
            self.terms.append((self._text[start : self._peek().at].strip(), result))
        return result

    def _parse_term(self) -> Evaluate:
        if token := self._accept(kind="number"):
            number = float(token.text) if "." in token.text else int(token.text)
            return lambda _: number
        if token := self._accept(kind="text"):
            return _constant(token.text)
        if token := self._accept(kind="ref"):
            return self._parse_reference(token.text)
        if self._accept("("):
            result = self._parse_or()
            self._require(")")
            return result
        if self._accept("["):
            return self._parse_list()
        if token := self._accept(kind="word"):
            return self._parse_word(token.text)
        raise InputError(f"{self._text!r}: expected a value before {self._text[self._peek().at :]!r}")

    def _parse_list(self) -> Evaluate:
        items: list[Evaluate] = []
        while not self._accept("]"):
            items.append(self._parse_term())
            if not self._accept(","):
                self._require("]")
                break
        return lambda find: [item(find) for item in items]

    def _parse_word(self, word: str) -> Evaluate:
        if self._accept("("):
            function = FUNCTIONS.get(word)
            if function is None:
                raise InputError(f"{self._text!r}: there is no function {word}; functions: {', '.join(FUNCTIONS)}")
            inner = self._parse_or()
            self._require(")")
            return lambda find: function(inner(find))
        return _constant(WORDS.get(word, word))

    def _parse_reference(self, text: str) -> Evaluate:
        where, colon, rest = text.partition(":") if ":" in text.partition("/")[0] else ("", "", text)
        kind, *names = rest.split("/")
        ref = ObjectPattern(where if colon else HOST, kind, names[0] if len(names) == 2 else None, names[-1])
        self.patterns.append(ref)
        steps = list(self._parse_path())

        def evaluate(find: FindObjects) -> Any:
            value: Any = ValueList(find(ref)) if ref.has_wildcard else next(iter(find(ref)), None)
            for step in steps:
                value = step(value)
            return value

        return evaluate

    def _parse_path(self) -> Iterator[Callable[[Any], Any]]:
        while True:
            if self._accept("."):
                word = self._accept(kind="word")
                if word is None:
                    raise InputError(f"{self._text!r}: expected a field after the dot")
                yield _field_getter(word.text)
            elif self._accept("["):
                yield self._parse_bracket()
                self._require("]")
            else:
                return

    def _parse_bracket(self) -> Callable[[Any], Any]:
        if token := self._accept(kind="number"):
            return _item_getter(int(token.text))
        if token := self._accept(kind="text"):
            return _field_getter(token.text)
        path = [_field_getter(self._parse_field_name())]
        while self._accept("."):
            path.append(_field_getter(self._parse_field_name()))
        operator = self._accept("=", "==", "!=")
        if operator is None:
            raise InputError(f"{self._text!r}: write a filter as [field=value]")
        token = self._accept(kind="text") or self._accept(kind="number") or self._accept(kind="word")
        if token is None:
            raise InputError(f"{self._text!r}: expected a value in the filter")
        return _filter_getter(path, token.text, wanted=operator.text != "!=")

    def _parse_field_name(self) -> str:
        word = self._accept(kind="word")
        if word is None:
            raise InputError(f"{self._text!r}: expected a field in the brackets")
        return word.text


def _constant(value: Any) -> Evaluate:
    return lambda _: value


def _add(left: Evaluate, right: Evaluate, sign: int) -> Evaluate:
    return lambda find: (left(find) or 0) + sign * (right(find) or 0)


def _map_values(values: ValueList, step: Callable[[Any], Any]) -> ValueList:
    result = ValueList()
    for value in values:
        item = step(value)
        if isinstance(item, ValueList):
            result += item
        elif item is not None:
            result.append(item)
    return result


def _field_getter(name: str) -> Callable[[Any], Any]:
    def step(value: Any) -> Any:
        if isinstance(value, dict):
            return value.get(name)
        return _map_values(ValueList(value), step) if isinstance(value, list) else None

    return step


def _item_getter(number: int) -> Callable[[Any], Any]:
    def step(value: Any) -> Any:
        if isinstance(value, ValueList):
            return _map_values(value, step)
        return value[number] if isinstance(value, list) and -len(value) <= number < len(value) else None

    return step


def _filter_getter(path: Sequence[Callable[[Any], Any]], text: str, *, wanted: bool) -> Callable[[Any], Any]:
    def matches(item: Any) -> bool:
        for step in path:
            item = step(item)
        text_of_item = "" if item is None else str(item).lower() if isinstance(item, bool) else str(item)
        return (text_of_item == text) is wanted

    def step(value: Any) -> Any:
        if isinstance(value, ValueList):
            return _map_values(value, step)
        if isinstance(value, list):
            return next((item for item in value if matches(item)), None)
        return value if value is not None and matches(value) else None

    return step


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _is_ready(obj: Raw) -> bool:
    """Whether the object is Ready and not being deleted."""
    conditions = (obj.get("status") or {}).get("conditions") or ()
    deleting = obj["metadata"].get("deletionTimestamp")
    return not deleting and any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _placement_text(binding: Any) -> str:
    """`member1=2 member2=4`, or only names when there are no replicas; empty when nothing is placed."""
    targets = ((binding or {}).get("spec") or {}).get("clusters") or ()
    shares = ((target["name"], target.get("replicas", 0)) for target in targets)
    return " ".join(f"{name}={replicas}" if replicas else name for name, replicas in sorted(shares))


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda value: sum(_as_list(value)),
    "count": lambda value: len(_as_list(value)),
    "min": lambda value: min(_as_list(value), default=None),
    "max": lambda value: max(_as_list(value), default=None),
    "ready": lambda value: sum(map(_is_ready, _as_list(value))),
    "exists": lambda value: bool(_as_list(value)),
    "missing": lambda value: not _as_list(value),
    "placement": _placement_text,
}
WORDS: dict[str, Any] = {"true": True, "false": False, "null": None}
OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
    "in": lambda left, right: left in right,
}


def compare_values(left: Any, operator: Callable[[Any, Any], bool], right: Any) -> bool:
    """Several values match when there is at least one and each matches; a missing value is neither more nor less."""
    if isinstance(left, ValueList) and isinstance(right, list):
        return operator(sorted(map(str, left)), sorted(map(str, right)))
    if isinstance(left, ValueList):
        return bool(left) and all(compare_values(one, operator, right) for one in left)
    try:
        return operator(left, right)
    except TypeError:
        return False
