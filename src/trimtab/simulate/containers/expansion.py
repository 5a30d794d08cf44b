"""Expansion of the words of a script: variables, arithmetic, and the output of commands."""

import re
from collections.abc import Callable

from trimtab.simulate.containers.arithmetic import calculate
from trimtab.simulate.containers.files import MAX_FILE_CHARACTERS
from trimtab.simulate.containers.shell_state import ShellState
from trimtab.simulate.containers.shell_syntax import UnsupportedScript, Word

CHARACTERS_PER_CALCULATION_STEP = 4
MAX_VALUE_CHARACTERS = MAX_FILE_CHARACTERS
_EXPANSION = re.compile(r"\$\(\((.*?)\)\)|\$\{(\w+)(?:(:?[-+])(.*?))?\}|\$(\w+|[?#@*$!])", re.DOTALL)


class Expansion:
    """Expands words with the variables of a script."""

    def __init__(self, state: ShellState, output_of: Callable[[str], str]) -> None:
        """`output_of` runs a script to its end, for `$(...)` and backquotes."""
        self._state = state
        self._output_of = output_of

    def expand(self, word: Word) -> str:
        result, size = [], 0
        for text, quote in word.parts:
            result.append(text if quote == "'" else self._expand_text(text, quote))
            size += len(result[-1])
            self._state.effort.add(0, len(text) + len(result[-1]))
            if size > MAX_VALUE_CHARACTERS:
                raise UnsupportedScript(f"values of more than {MAX_VALUE_CHARACTERS} characters are not simulated")
        return "".join(result)

    def split(self, word: Word) -> list[str]:
        """The fields of a word: unquoted expansions are split at spaces."""
        if any(quote for _, quote in word.parts):
            return [self.expand(word)]
        text = self.expand(word)
        return text.split() if "$" in word.parts[0][0] or "`" in word.parts[0][0] else [text]

    def _expand_text(self, text: str, quote: str) -> str:
        if quote == '"':
            text = re.sub(r"\\([\"\\`\n])", r"\1", text)
        return _EXPANSION.sub(self._expand_match, self._substitute_commands(text))

    def _substitute_commands(self, text: str) -> str:
        """Replace `$(...)` and backquotes by the output of their commands, which must not sleep."""
        if "`" not in text and "$(" not in text:
            return text
        result, position = "", 0
        while position < len(text):
            backquote = text[position] == "`"
            if backquote or (text.startswith("$(", position) and not text.startswith("$((", position)):
                end = _substitution_end(text, position)
                inner = text[position + 1 : end - 1] if backquote else text[position + 2 : end - 1]
                result += self._output_of(inner)
                position = end
            else:
                result += text[position]
                position += 1
        return result

    def _expand_match(self, match: re.Match[str]) -> str:
        arithmetic, name, how, other, plain = match.groups()
        if arithmetic is not None:
            return str(self._calculate(arithmetic))
        value = self._variable(name or plain)
        if how and how.endswith("-"):
            return value or (other or "")
        if how and how.endswith("+"):
            return (other or "") if value else ""
        return value

    def _variable(self, name: str) -> str:
        if name == "RANDOM":
            return str(self._state.rng.randrange(32768))
        if name == "?":
            return str(self._state.status)
        if name == "$":
            return "1"
        return self._state.environment.get(name, "")

    def _calculate(self, text: str) -> int:
        text = _EXPANSION.sub(self._expand_match, text)
        text = re.sub(r"[A-Za-z_]\w*", lambda match: self._variable(match[0]) or "0", text)
        self._state.effort.add(len(text) // CHARACTERS_PER_CALCULATION_STEP)
        return calculate(text)


def _substitution_end(text: str, start: int) -> int:
    if text[start] == "`":
        return text.index("`", start + 1) + 1
    depth = 0
    for position in range(start + 1, len(text)):
        depth += (text[position] == "(") - (text[position] == ")")
        if depth == 0:
            return position + 1
    raise UnsupportedScript("a substitution has no end")
