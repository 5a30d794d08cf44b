"""The expression language of stories: paths into objects of the host and the members, and comparisons of them."""

import re
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple, TypeAlias

from trimtab.api.value import Raw
from trimtab.errors import InputFault

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


class Many(list[Any]):
    """The values of several objects; a path applied to it is applied to each of them."""


class Ref(NamedTuple):
    """A pattern for objects: `member1:Pod/default/web-*`, `Cluster/member1`; members and names may have wildcards."""

    where: str
    kind: str
    namespace: str | None
    """None when the text has no namespace."""
    name: str

    @property
    def plural(self) -> bool:
        return any("*" in text or "?" in text for text in (self.where, self.namespace or "", self.name))

    def names(self, obj: Raw) -> bool:
        metadata = obj["metadata"]
        namespace = metadata.get("namespace", "")
        return fnmatchcase(metadata["name"], self.name) and (
            not namespace or fnmatchcase(namespace, "default" if self.namespace is None else self.namespace)
        )

    def __str__(self) -> str:
        return "/".join(part for part in (self.kind, self.namespace, self.name) if part)


Found: TypeAlias = Callable[[Ref], Sequence[Raw]]
"""Returns the objects that match a pattern."""
Evaluate: TypeAlias = Callable[[Found], Any]


class Saying:
    """One parsed expression; it can be evaluated many times."""

    def __init__(self, text: str) -> None:
        self.text = text
        reader = _Reader(text)
        self._evaluate = reader.whole()
        self.refs: tuple[Ref, ...] = tuple(dict.fromkeys(reader.refs))
        self.parts: tuple[tuple[str, Evaluate], ...] = tuple(reader.parts)

    def value(self, find: Found) -> Any:
        return self._evaluate(find)

    def holds(self, find: Found) -> bool:
        value = self._evaluate(find)
        return bool(value) and value != "False"

    def seen(self, find: Found) -> Iterator[tuple[str, Any]]:
        """The text and the value of every term, to show why an expression is false."""
        for text, evaluate in self.parts:
            yield text, evaluate(find)


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


class _Reader:
    """A recursive-descent parser."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(self._split())
        self._next = 0
        self.refs: list[Ref] = []
        self.parts: list[tuple[str, Evaluate]] = []

    def _split(self) -> Iterator[_Token]:
        at = 0
        while self._text[at:].strip():
            match = TOKEN.match(self._text, at)
            if match is None:
                raise InputFault(f"{self._text!r}: unexpected text: {self._text[at:].strip()!r}")
            kind = match.lastgroup or ""
            yield _Token(kind, match[kind], match.start(kind))
            at = match.end()

    def _peek(self) -> _Token:
        return self._tokens[self._next] if self._next < len(self._tokens) else _Token("end", "", len(self._text))

    def _take(self, *texts: str, kind: str = "") -> _Token | None:
        token = self._peek()
        if (token.text in texts and token.kind != "text") or (kind and token.kind == kind):
            self._next += 1
            return token
        return None

    def _must(self, text: str) -> None:
        if self._take(text) is None:
            raise InputFault(f"{self._text!r}: expected {text!r} before {self._text[self._peek().at :]!r}")

    def whole(self) -> Evaluate:
        if not self._tokens:
            raise InputFault("the expression is empty")
        result = self._either()
        if self._peek().kind != "end":
            raise InputFault(f"{self._text!r}: unexpected {self._text[self._peek().at :]!r}")
        return result

    def _either(self) -> Evaluate:
        sides = [self._both()]
        while self._take("or"):
            sides.append(self._both())
        return sides[0] if len(sides) == 1 else lambda find: any(side(find) for side in sides)

    def _both(self) -> Evaluate:
        sides = [self._negated()]
        while self._take("and"):
            sides.append(self._negated())
        return sides[0] if len(sides) == 1 else lambda find: all(side(find) for side in sides)

    def _negated(self) -> Evaluate:
        if self._take("not"):
            inner = self._negated()
            return lambda find: not inner(find)
        return self._comparison()

    def _comparison(self) -> Evaluate:
        left = self._sum()
        if operator := self._take("==", "!=", "<=", ">=", "<", ">", "in"):
            right = self._sum()
            compare = OPERATORS[operator.text]
            return lambda find: compared(left(find), compare, right(find))
        return left

    def _sum(self) -> Evaluate:
        result = self._shown()
        while sign := self._take("+") or self._take(kind="minus"):
            result = _added(result, self._shown(), 1 if sign.text == "+" else -1)
        return result

    def _shown(self) -> Evaluate:
        """A term; its text is kept, so that its value can be shown when the expression is false."""
        start, constant = self._peek().at, self._peek().kind in ("number", "text")
        result = self._term()
        if not constant:
            self.parts.append((self._text[start : self._peek().at].strip(), result))
        return result

    def _term(self) -> Evaluate:
        if token := self._take(kind="number"):
            number = float(token.text) if "." in token.text else int(token.text)
            return lambda _: number
        if token := self._take(kind="text"):
            return _constant(token.text)
        if token := self._take(kind="ref"):
            return self._reference(token.text)
        if self._take("("):
            result = self._either()
            self._must(")")
            return result
        if self._take("["):
            return self._list()
        if token := self._take(kind="word"):
            return self._word(token.text)
        raise InputFault(f"{self._text!r}: expected a value before {self._text[self._peek().at :]!r}")

    def _list(self) -> Evaluate:
        items: list[Evaluate] = []
        while not self._take("]"):
            items.append(self._term())
            if not self._take(","):
                self._must("]")
                break
        return lambda find: [item(find) for item in items]

    def _word(self, word: str) -> Evaluate:
        if self._take("("):
            function = FUNCTIONS.get(word)
            if function is None:
                raise InputFault(f"{self._text!r}: there is no function {word}; functions: {', '.join(FUNCTIONS)}")
            inner = self._either()
            self._must(")")
            return lambda find: function(inner(find))
        return _constant(WORDS.get(word, word))

    def _reference(self, text: str) -> Evaluate:
        where, colon, rest = text.partition(":") if ":" in text.partition("/")[0] else ("", "", text)
        kind, *names = rest.split("/")
        ref = Ref(where if colon else HOST, kind, names[0] if len(names) == 2 else None, names[-1])
        self.refs.append(ref)
        steps = list(self._steps())

        def evaluate(find: Found) -> Any:
            value: Any = Many(find(ref)) if ref.plural else next(iter(find(ref)), None)
            for step in steps:
                value = step(value)
            return value

        return evaluate

    def _steps(self) -> Iterator[Callable[[Any], Any]]:
        while True:
            if self._take("."):
                word = self._take(kind="word")
                if word is None:
                    raise InputFault(f"{self._text!r}: expected a field after the dot")
                yield _field(word.text)
            elif self._take("["):
                yield self._bracket()
                self._must("]")
            else:
                return

    def _bracket(self) -> Callable[[Any], Any]:
        if token := self._take(kind="number"):
            return _position(int(token.text))
        if token := self._take(kind="text"):
            return _field(token.text)
        path = [_field(self._name())]
        while self._take("."):
            path.append(_field(self._name()))
        operator = self._take("=", "==", "!=")
        if operator is None:
            raise InputFault(f"{self._text!r}: write a filter as [field=value]")
        token = self._take(kind="text") or self._take(kind="number") or self._take(kind="word")
        if token is None:
            raise InputFault(f"{self._text!r}: expected a value in the filter")
        return _filter(path, token.text, wanted=operator.text != "!=")

    def _name(self) -> str:
        word = self._take(kind="word")
        if word is None:
            raise InputFault(f"{self._text!r}: expected a field in the brackets")
        return word.text


def _constant(value: Any) -> Evaluate:
    return lambda _: value


def _added(left: Evaluate, right: Evaluate, sign: int) -> Evaluate:
    return lambda find: (left(find) or 0) + sign * (right(find) or 0)


def _each(values: Many, step: Callable[[Any], Any]) -> Many:
    result = Many()
    for value in values:
        item = step(value)
        if isinstance(item, Many):
            result += item
        elif item is not None:
            result.append(item)
    return result


def _field(name: str) -> Callable[[Any], Any]:
    def step(value: Any) -> Any:
        if isinstance(value, dict):
            return value.get(name)
        return _each(Many(value), step) if isinstance(value, list) else None

    return step


def _position(number: int) -> Callable[[Any], Any]:
    def step(value: Any) -> Any:
        if isinstance(value, Many):
            return _each(value, step)
        return value[number] if isinstance(value, list) and -len(value) <= number < len(value) else None

    return step


def _filter(path: Sequence[Callable[[Any], Any]], text: str, *, wanted: bool) -> Callable[[Any], Any]:
    def matches(item: Any) -> bool:
        for step in path:
            item = step(item)
        text_of_item = "" if item is None else str(item).lower() if isinstance(item, bool) else str(item)
        return (text_of_item == text) is wanted

    def step(value: Any) -> Any:
        if isinstance(value, Many):
            return _each(value, step)
        if isinstance(value, list):
            return next((item for item in value if matches(item)), None)
        return value if value is not None and matches(value) else None

    return step


def _lists(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _is_ready(obj: Raw) -> bool:
    """Whether the object is Ready and not being deleted."""
    conditions = (obj.get("status") or {}).get("conditions") or ()
    deleting = obj["metadata"].get("deletionTimestamp")
    return not deleting and any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _placement(binding: Any) -> str:
    """`member1=2 member2=4`, or only names when there are no replicas; empty when nothing is placed."""
    targets = ((binding or {}).get("spec") or {}).get("clusters") or ()
    shares = ((target["name"], target.get("replicas", 0)) for target in targets)
    return " ".join(f"{name}={replicas}" if replicas else name for name, replicas in sorted(shares))


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda value: sum(_lists(value)),
    "count": lambda value: len(_lists(value)),
    "min": lambda value: min(_lists(value), default=None),
    "max": lambda value: max(_lists(value), default=None),
    "ready": lambda value: sum(map(_is_ready, _lists(value))),
    "exists": lambda value: bool(_lists(value)),
    "missing": lambda value: not _lists(value),
    "placement": _placement,
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


def compared(left: Any, operator: Callable[[Any, Any], bool], right: Any) -> bool:
    """Several values match when there is at least one and each matches; a missing value is neither more nor less."""
    if isinstance(left, Many) and isinstance(right, list):
        return operator(sorted(map(str, left)), sorted(map(str, right)))
    if isinstance(left, Many):
        return bool(left) and all(compared(one, operator, right) for one in left)
    try:
        return operator(left, right)
    except TypeError:
        return False
