"""A parser of CEL, for checks that the evaluator cannot make: fields of objects with a schema, and static costs.

Only expressions that the evaluator has compiled are parsed, so what is not recognised here raises `SyntaxFault`, and the
caller then checks nothing.
"""

import re
from typing import NamedTuple, TypeAlias

_TOKEN = re.compile(
    r"""
    (?P<space>\s+|//[^\n]*)
  | (?P<string>[rRbB]{0,2}(?:\"{3}(?:\\.|[^\\])*?\"{3}|'{3}(?:\\.|[^\\])*?'{3}|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))
  | (?P<number>0[xX][0-9a-fA-F]+[uU]?|\d+\.\d+(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\d+[uU]?)
  | (?P<name>[A-Za-z_]\w*|`[^`]*`)
  | (?P<operator>==|!=|<=|>=|&&|\|\||[-+*/%<>!?:.,()\[\]{}])
    """,
    re.VERBOSE | re.DOTALL,
)
_BINARY = {
    "||": 1,
    "&&": 2,
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">=", "in"), 3),
    **dict.fromkeys(("+", "-"), 4),
    **dict.fromkeys(("*", "/", "%"), 5),
}
MACROS = frozenset(("all", "exists", "exists_one", "existsOne", "filter", "map", "transformList", "transformMap"))
_MAX_DEPTH = 200


class SyntaxFault(Exception):
    """The text is not an expression that this parser knows."""


class Literal(NamedTuple):
    type: str
    at: int
    text: str = ""
    """A string without escapes; empty for everything else."""


class Name(NamedTuple):
    name: str
    at: int


class Select(NamedTuple):
    """`operand.field`; `test` in `has(operand.field)`."""

    operand: "Node"
    field: str
    at: int
    optional: bool = False


class Index(NamedTuple):
    operand: "Node"
    key: "Node"
    at: int
    optional: bool = False


class Call(NamedTuple):
    """A function, method, operator or macro; `target` is None for a function. Operators are called `_+_` or `!_`."""

    function: str
    target: "Node | None"
    arguments: "tuple[Node, ...]"
    at: int


class Group(NamedTuple):
    """A list or a map, with all expressions inside."""

    type: str
    parts: "tuple[Node, ...]"
    at: int


Node: TypeAlias = Literal | Name | Select | Index | Call | Group


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


def parse(text: str) -> Node:
    """The tree of an expression; raises `SyntaxFault`."""
    parser = _CelParser(_tokens(text))
    node = parser.expression()
    parser.expect("")
    return node


def _tokens(text: str) -> list[_Token]:
    found: list[_Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise SyntaxFault(f"unexpected character at {at}")
        if match.lastgroup != "space":
            found.append(_Token(str(match.lastgroup), match[0], at))
        at = match.end()
    return [*found, _Token("end", "", at)]


class _CelParser:
    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _take(self) -> _Token:
        self._at += 1
        return self._tokens[self._at - 1]

    def _accept(self, text: str) -> bool:
        if self._next.kind in ("operator", "name") and self._next.text == text:
            self._at += 1
            return True
        return False

    def expect(self, text: str) -> _Token:
        if self._next.text != text:
            raise SyntaxFault(f"expected {text!r} at {self._next.at}")
        return self._take()

    def expression(self) -> Node:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise SyntaxFault("nested too deeply")
        node = self._binary(1)
        if self._next.text == "?" and self._next.kind == "operator":
            at = self._take().at
            first = self._binary(1)
            self.expect(":")
            node = Call("_?_:_", None, (node, first, self.expression()), at)
        self._depth -= 1
        return node

    def _binary(self, level: int) -> Node:
        left = self._unary()
        while (rank := _BINARY.get(self._next.text, 0)) >= level and self._next.kind in ("operator", "name"):
            operator = self._take()
            right = self._binary(rank + 1)
            name = "@in" if operator.text == "in" else f"_{operator.text}_"
            left = Call(name, None, (left, right), operator.at)
        return left

    def _unary(self) -> Node:
        if self._next.kind == "operator" and self._next.text in ("!", "-"):
            operator = self._take()
            self._depth += 1
            if self._depth > _MAX_DEPTH:
                raise SyntaxFault("nested too deeply")
            operand = self._unary()
            self._depth -= 1
            return Call(f"{operator.text}_", None, (operand,), operator.at)
        return self._postfix(self._primary())

    def _postfix(self, node: Node) -> Node:
        while True:
            at = self._next.at
            if self._accept("."):
                optional = self._accept("?")
                name = self._take()
                if name.kind != "name":
                    raise SyntaxFault(f"expected a name at {name.at}")
                if self._accept("("):
                    node = Call(name.text, node, self._list(")"), at)
                else:
                    node = Select(node, name.text.strip("`"), at, optional)
            elif self._accept("["):
                optional = self._accept("?")
                node = Index(node, self.expression(), at, optional)
                self.expect("]")
            elif self._next.text == "{" and isinstance(node, Name | Select):
                raise SyntaxFault("message literals are not known")
            else:
                return node

    def _primary(self) -> Node:
        token = self._take()
        if token.kind == "string":
            prefix, quote, _ = token.text.partition(token.text[-1])
            if "b" in prefix.lower():
                return Literal("bytes", token.at)
            content = token.text.removeprefix(prefix).strip(quote)
            return Literal("string", token.at, content if prefix or "\\" not in content else "")
        if token.kind == "number":
            kind = "uint" if token.text[-1] in "uU" else "int"
            is_double = not token.text.lower().startswith("0x") and re.search(r"[.eE]", token.text)
            return Literal("double" if is_double else kind, token.at)
        if token.kind == "name":
            return self._name(token)
        if token.text == "(":
            node = self.expression()
            self.expect(")")
            return node
        if token.text == "[":
            return Group("list", self._list("]"), token.at)
        if token.text == "{":
            return Group("map", self._entries(), token.at)
        if token.text == ".":
            return self._name(self._take())
        raise SyntaxFault(f"unexpected {token.text!r} at {token.at}")

    def _name(self, token: _Token) -> Node:
        if token.text in ("true", "false"):
            return Literal("bool", token.at)
        if token.text == "null":
            return Literal("null", token.at)
        if self._accept("("):
            return Call(token.text, None, self._list(")"), token.at)
        return Name(token.text, token.at)

    def _list(self, end: str) -> tuple[Node, ...]:
        found: list[Node] = []
        while not self._accept(end):
            self._accept("?")
            found.append(self.expression())
            if not self._accept(","):
                self.expect(end)
                break
        return tuple(found)

    def _entries(self) -> tuple[Node, ...]:
        found: list[Node] = []
        while not self._accept("}"):
            self._accept("?")
            found.append(self.expression())
            self.expect(":")
            found.append(self.expression())
            if not self._accept(","):
                self.expect("}")
                break
        return tuple(found)
