"""Parses the part of the POSIX shell that scripts in manifests commonly use; anything else is `UnsupportedScript`."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeAlias

OPERATORS = ("&&", "||", ";;", ">>", "2>&1", "2>", ">", ";", "|", "&", "(", ")", "\n")
RESERVED = frozenset(("if", "then", "elif", "else", "fi", "while", "until", "do", "done", "for", "in", "{", "}"))
MAX_SCRIPT_CHARACTERS = 16_384
MAX_TOKENS = 2_000
_OPERATOR = re.compile("|".join(map(re.escape, OPERATORS)))
_PLAIN = re.compile(r"[^\\'\"$`#&|;>2()\n \t]+")
_PARENTHESIS = re.compile(r"[()]")


class UnsupportedScript(Exception):
    """The script uses something that is not simulated."""


@dataclass(frozen=True)
class Word:
    """One word before expansion: pairs of (text, quote), where the quote is a quote character or empty."""

    parts: tuple[tuple[str, str], ...]

    @property
    def literal(self) -> str | None:
        """The text if nothing in the word is quoted or expanded."""
        if len(self.parts) == 1 and self.parts[0][1] == "" and "$" not in self.parts[0][0]:
            return self.parts[0][0]
        return None


@dataclass(frozen=True)
class Command:
    """A simple command with assignments before it and redirections of its output."""

    words: tuple[Word, ...]
    redirects: tuple[tuple[str, Word], ...] = ()


@dataclass(frozen=True)
class CommandList:
    """Commands joined by `;`, `&&`, `||`, `|` or `&`: pairs of (operator before the node, node)."""

    items: tuple[tuple[str, "Node"], ...]


@dataclass(frozen=True)
class If:
    branches: tuple[tuple["Node", "Node"], ...]
    otherwise: "Node | None"


@dataclass(frozen=True)
class Loop:
    """`while`, or `until` when negated."""

    condition: "Node"
    body: "Node"
    negated: bool


@dataclass(frozen=True)
class For:
    variable: str
    words: tuple[Word, ...]
    body: "Node"


@dataclass(frozen=True)
class Function:
    name: str
    body: "Node"


Node: TypeAlias = Command | CommandList | If | Loop | For | Function


def parse_script(text: str) -> Node:
    if len(text) > MAX_SCRIPT_CHARACTERS:
        raise UnsupportedScript("the script is too long")
    parser = _ShellParser(list(islice(_tokens(text), MAX_TOKENS + 1)))
    if len(parser.tokens) > MAX_TOKENS:
        raise UnsupportedScript("the script is too long")
    node = parser.sequence(frozenset())
    if parser.position < len(parser.tokens):
        raise UnsupportedScript(f"unexpected {parser.tokens[parser.position]!r}")
    return node


def command_names(node: Node) -> Iterator[str]:
    """The names of all simple commands; empty for a name that is known only when it runs."""
    match node:
        case Command(words):
            names = [word for word in words if not is_assignment(word)]
            if names:
                yield names[0].literal or ""
        case CommandList(items):
            for _, item in items:
                yield from command_names(item)
        case If(branches, otherwise):
            for condition, body in branches:
                yield from command_names(condition)
                yield from command_names(body)
            if otherwise is not None:
                yield from command_names(otherwise)
        case Loop(condition, body):
            yield from command_names(condition)
            yield from command_names(body)
        case For(_, _, body) | Function(_, body):
            yield from command_names(body)


def function_names(node: Node) -> Iterator[str]:
    if isinstance(node, Function):
        yield node.name
    elif isinstance(node, CommandList):
        for _, item in node.items:
            yield from function_names(item)


def is_assignment(word: Word) -> bool:
    text, quote = word.parts[0]
    name, equals, _ = text.partition("=")
    return quote == "" and bool(equals) and name.isidentifier()


def _tokens(text: str) -> Iterator[str | Word]:
    position = 0
    parts: list[tuple[str, str]] = []
    plain = ""

    def finish() -> Iterator[Word]:
        nonlocal plain
        if plain:
            parts.append((plain, ""))
            plain = ""
        if parts:
            yield Word(tuple(parts))
            parts.clear()

    while position < len(text):
        if run := _PLAIN.match(text, position):
            plain += run[0]
            position = run.end()
            continue
        char = text[position]
        found = _OPERATOR.match(text, position)
        operator = found[0] if found else None
        if operator in ("2>&1", "2>") and (plain or parts):
            operator = None  # a word that ends in 2
        if char == "\\" and position + 1 < len(text):
            if text[position + 1] != "\n":
                parts += [(plain, "")] if plain else []
                plain = ""
                parts.append((text[position + 1], "'"))
            position += 2
        elif char in "'\"":
            end = _closing_quote(text, position)
            parts += [(plain, "")] if plain else []
            plain = ""
            parts.append((text[position + 1 : end], char))
            position = end + 1
        elif (char == "$" and text.startswith("$(", position)) or char == "`":
            end = substitution_end(text, position)
            plain += text[position:end]
            position = end
        elif char == "$" and text.startswith("${", position):
            end = text.find("}", position)
            if end < 0:
                raise UnsupportedScript("an expansion has no end")
            plain += text[position : end + 1]
            position = end + 1
        elif char == "#" and not plain and not parts:
            end = text.find("\n", position)
            position = end if end >= 0 else len(text)
        elif operator is not None:
            yield from finish()
            yield operator
            position += len(operator)
        elif char in " \t":
            yield from finish()
            position += 1
        else:
            plain += char
            position += 1
    yield from finish()


def _closing_quote(text: str, start: int) -> int:
    position = start + 1
    while position < len(text) and text[position] != text[start]:
        position += 2 if text[start] == '"' and text[position] == "\\" else 1
    if position >= len(text):
        raise UnsupportedScript("a quote has no end")
    return position


def substitution_end(text: str, start: int) -> int:
    """The position after a command or arithmetic substitution."""
    if text[start] == "`":
        end = text.find("`", start + 1)
        if end < 0:
            raise UnsupportedScript("a substitution has no end")
        return end + 1
    depth = 0
    for found in _PARENTHESIS.finditer(text, start + 1):
        depth += 1 if found[0] == "(" else -1
        if depth == 0:
            return found.end()
    raise UnsupportedScript("a substitution has no end")


@dataclass
class _ShellParser:
    tokens: list[str | Word]
    position: int = 0
    _depth: int = field(default=0)

    def _peek(self) -> str | Word | None:
        return self.tokens[self.position] if self.position < len(self.tokens) else None

    def _reserved_word(self) -> str:
        item = self._peek()
        literal = item.literal if isinstance(item, Word) else None
        return literal if literal is not None and literal in RESERVED else ""

    def _expect(self, word: str) -> None:
        self._skip_newlines()
        if self._reserved_word() != word:
            raise UnsupportedScript(f"{word} is missing")
        self.position += 1

    def _skip_newlines(self) -> None:
        while self._peek() in ("\n", ";"):
            self.position += 1

    def sequence(self, ends: frozenset[str]) -> Node:
        """Commands up to one of the reserved words `ends`, or the end."""
        self._depth += 1
        if self._depth > 32:
            raise UnsupportedScript("the script is nested too deeply")
        items: list[tuple[str, Node]] = []
        operator = ";"
        while True:
            if operator == ";":
                self._skip_newlines()
            else:
                while self._peek() == "\n":
                    self.position += 1
            item = self._peek()
            if item is None or item == ")" or self._reserved_word() in ends - {""}:
                break
            items.append((operator, self._command()))
            item = self._peek()
            if isinstance(item, str) and item in ("&&", "||", "|", "&", ";", "\n"):
                self.position += 1
                operator = ";" if item in (";", "\n") else item
                if operator == "&":
                    raise UnsupportedScript("background commands are not simulated")
            else:
                operator = ";"
                if item is not None and item != ")" and self._reserved_word() not in ends - {""}:
                    raise UnsupportedScript(f"unexpected {item!r}")
        self._depth -= 1
        return items[0][1] if len(items) == 1 else CommandList(tuple(items))

    def _command(self) -> Node:
        word = self._reserved_word()
        if word == "if":
            return self._if()
        if word in ("while", "until"):
            self.position += 1
            condition = self.sequence(frozenset(("do",)))
            return Loop(condition, self._do(), word == "until")
        if word == "for":
            return self._for()
        if word == "{":
            self.position += 1
            body = self.sequence(frozenset(("}",)))
            self._expect("}")
            return body
        if self._peek() == "(":
            self.position += 1
            body = self.sequence(frozenset())
            if self._peek() != ")":
                raise UnsupportedScript(") is missing")
            self.position += 1
            return body
        return self._simple_command()

    def _do(self) -> Node:
        self._expect("do")
        body = self.sequence(frozenset(("done",)))
        self._expect("done")
        return body

    def _if(self) -> If:
        branches: list[tuple[Node, Node]] = []
        otherwise: Node | None = None
        while True:
            self.position += 1
            condition = self.sequence(frozenset(("then",)))
            self._expect("then")
            branches.append((condition, self.sequence(frozenset(("elif", "else", "fi")))))
            if self._reserved_word() != "elif":
                break
        if self._reserved_word() == "else":
            self.position += 1
            otherwise = self.sequence(frozenset(("fi",)))
        self._expect("fi")
        return If(tuple(branches), otherwise)

    def _for(self) -> For:
        self.position += 1
        name = self._peek()
        self.position += 1
        self._expect("in")
        words: list[Word] = []
        while isinstance(self._peek(), Word) and self._reserved_word() != "do":
            words.append(self._peek())  # type: ignore[arg-type]
            self.position += 1
        if not isinstance(name, Word) or name.literal is None:
            raise UnsupportedScript("for needs a variable")
        return For(name.literal, tuple(words), self._do())

    def _simple_command(self) -> Node:
        words: list[Word] = []
        redirects: list[tuple[str, Word]] = []
        while True:
            item = self._peek()
            if isinstance(item, Word):
                words.append(item)
                self.position += 1
            elif item == "2>&1":
                self.position += 1
            elif item in (">", ">>", "2>"):
                target = self.tokens[self.position + 1] if self.position + 1 < len(self.tokens) else None
                if not isinstance(target, Word):
                    raise UnsupportedScript("a redirection has no target")
                redirects.append((str(item), target))
                self.position += 2
            elif item == "(" and len(words) == 1 and words[0].literal:
                return self._function(words[0].literal)
            else:
                break
        if not words:
            raise UnsupportedScript(f"unexpected {self._peek()!r}")
        return Command(tuple(words), tuple(redirects))

    def _function(self, name: str) -> Function:
        self.position += 1
        if self._peek() != ")":
            raise UnsupportedScript("unexpected (")
        self.position += 1
        while self._peek() == "\n":
            self.position += 1
        return Function(name, self._command())
