"""Kubernetes' named formats in CEL: `format.dns1123Label().validate(text)` is none, or the errors of the text.

A custom function cannot return an optional value in this evaluator. So the functions return the plain value, and
`wrap_optional_calls` puts `optional.ofNonZeroValue(...)` around each call before the expression is compiled.
"""

import re
from collections.abc import Callable, Iterator

from trimtab.api.names import (
    label_faults,
    label_value_faults,
    qualified_name_faults,
    service_name_faults,
    subdomain_faults,
)
from trimtab.api.schema.formats import FORMATS
from trimtab.api.value import Raw
from trimtab.interpret.cel.library import Overload

_TEXT = r'[rR]?(?:"""(?:\\.|.)*?"""|' + r"'''(?:\\.|.)*?'''" + r'|"(?:\\.|[^"\\\n])*"' + r"|'(?:\\.|[^'\\\n])*')"
_TOKEN = re.compile(rf"{_TEXT}|//[^\n]*|\w+|\s+|.", re.DOTALL)
_OPENING_BRACKETS = {")": "(", "]": "["}


def _allow_trailing_dash(faults: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    """A name that a suffix will be added to may end in a dash."""
    return lambda text: faults(f"{text[:-1]}a" if text.endswith("-") else text)


def _format_check(name: str, message: str) -> Callable[[str], list[str]]:
    return lambda text: [] if FORMATS[name](text) else [message]


_FORMATS: dict[str, Callable[[str], list[str]]] = {
    "dns1123Label": label_faults,
    "dns1123Subdomain": subdomain_faults,
    "dns1035Label": service_name_faults,
    "qualifiedName": lambda text: list(qualified_name_faults(text)),
    "dns1123LabelPrefix": _allow_trailing_dash(label_faults),
    "dns1123SubdomainPrefix": _allow_trailing_dash(subdomain_faults),
    "dns1035LabelPrefix": _allow_trailing_dash(service_name_faults),
    "labelValue": label_value_faults,
    "uri": _format_check("uri", "must be a valid URI"),
    "uuid": _format_check("uuid", "does not match the UUID format"),
    "byte": _format_check("byte", "invalid base64"),
    "date": _format_check("date", "invalid date"),
    "datetime": _format_check("datetime", "invalid datetime"),
}


def _named_format(name: str) -> Raw:
    return {"Format": name} if name in _FORMATS else {}


def _format_constructor(name: str) -> Callable[[], Raw]:
    return lambda: {"Format": name}


def format_overloads() -> list[Overload]:
    return [
        *(Overload(f"format.{name}", (), "Format", _format_constructor(name)) for name in _FORMATS),
        Overload("format.named", ("string",), "Format", _named_format),
        Overload("validate", ("Format", "string"), "texts", lambda f, text: _FORMATS[f["Format"]](text), member=True),
    ]


def wrap_optional_calls(text: str) -> str:
    """The expression with every call that may return none wrapped into an optional value."""
    if "format" not in text:
        return text
    tokens = _TOKEN.findall(text)
    before = dict.fromkeys(range(len(tokens) + 1), "")
    after = dict(before)
    for start, end in _optional_calls(tokens):
        before[start] = "optional.ofNonZeroValue(" + before[start]
        after[end] += ")"
    return "".join(f"{before[i]}{token}{after[i]}" for i, token in enumerate(tokens))


def _optional_calls(tokens: list[str]) -> Iterator[tuple[int, int]]:
    """The first and the last token of each `x.validate(...)` and `format.named(...)`."""
    indexes = [i for i, token in enumerate(tokens) if not token.isspace() and not token.startswith("//")]
    significant = [tokens[i] for i in indexes]
    for at, name in enumerate(significant):
        if (
            name not in ("validate", "named")
            or significant[at - 1 : at] != ["."]
            or significant[at + 1 : at + 2] != ["("]
        ):
            continue
        end = _closing_bracket(significant, at + 1)
        start = _chain_start(significant, at)
        if end is not None and (name == "validate" or significant[start] == "format"):
            yield indexes[start], indexes[end]


def _closing_bracket(significant: list[str], opening: int) -> int | None:
    depth = 0
    for at in range(opening, len(significant)):
        depth += (significant[at] in "([{") - (significant[at] in ")]}")
        if depth == 0:
            return at
    return None


def _chain_start(significant: list[str], at: int) -> int:
    """The index where the chain of names and calls begins that ends with this name."""
    while at >= 2 and significant[at - 1] == ".":
        at -= 2
        while significant[at] in _OPENING_BRACKETS and at > 0:
            depth = 1
            while depth and at > 0:
                at -= 1
                depth += (significant[at] in ")]") - (significant[at] in "([")
            at -= at > 0 and (significant[at - 1][-1:].isalnum() or significant[at - 1] in _OPENING_BRACKETS)
    return at
