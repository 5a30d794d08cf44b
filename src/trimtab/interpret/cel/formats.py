"""Kubernetes' named formats in CEL: `format.dns1123Label().validate(text)` is none, or what is wrong with the text.

The evaluator lets no function of ours make an optional value. So the functions give the plain value, and `with_optionals` puts
`optional.ofNonZeroValue(...)` round each call before the text is compiled.
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
_OPENS = {")": "(", "]": "["}


def _prefix(faults: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    """A name that something will be added to may end in a dash."""
    return lambda text: faults(f"{text[:-1]}a" if text.endswith("-") else text)


def _shaped(name: str, complaint: str) -> Callable[[str], list[str]]:
    return lambda text: [] if FORMATS[name](text) else [complaint]


_FORMATS: dict[str, Callable[[str], list[str]]] = {
    "dns1123Label": label_faults,
    "dns1123Subdomain": subdomain_faults,
    "dns1035Label": service_name_faults,
    "qualifiedName": qualified_name_faults,
    "dns1123LabelPrefix": _prefix(label_faults),
    "dns1123SubdomainPrefix": _prefix(subdomain_faults),
    "dns1035LabelPrefix": _prefix(service_name_faults),
    "labelValue": label_value_faults,
    "uri": _shaped("uri", "must be a valid URI"),
    "uuid": _shaped("uuid", "does not match the UUID format"),
    "byte": _shaped("byte", "invalid base64"),
    "date": _shaped("date", "invalid date"),
    "datetime": _shaped("datetime", "invalid datetime"),
}


def _named(name: str) -> Raw:
    return {"Format": name} if name in _FORMATS else {}


def _called(name: str) -> Callable[[], Raw]:
    return lambda: {"Format": name}


def formats() -> list[Overload]:
    return [
        *(Overload(f"format.{name}", (), "Format", _called(name)) for name in _FORMATS),
        Overload("format.named", ("string",), "Format", _named),
        Overload("validate", ("Format", "string"), "texts", lambda f, text: _FORMATS[f["Format"]](text), member=True),
    ]


def with_optionals(text: str) -> str:
    """The expression with every call that may have no answer made to say so."""
    if "format" not in text:
        return text
    tokens = _TOKEN.findall(text)
    before = dict.fromkeys(range(len(tokens) + 1), "")
    after = dict(before)
    for start, end in _calls(tokens):
        before[start] = "optional.ofNonZeroValue(" + before[start]
        after[end] += ")"
    return "".join(f"{before[i]}{token}{after[i]}" for i, token in enumerate(tokens))


def _calls(tokens: list[str]) -> Iterator[tuple[int, int]]:
    """The first and the last token of each `x.validate(...)` and `format.named(...)`."""
    solid = [i for i, token in enumerate(tokens) if not token.isspace() and not token.startswith("//")]
    words = [tokens[i] for i in solid]
    for at, word in enumerate(words):
        if word not in ("validate", "named") or words[at - 1 : at] != ["."] or words[at + 1 : at + 2] != ["("]:
            continue
        end = _closing(words, at + 1)
        start = _beginning(words, at)
        if end is not None and (word == "validate" or words[start] == "format"):
            yield solid[start], solid[end]


def _closing(words: list[str], opening: int) -> int | None:
    depth = 0
    for at in range(opening, len(words)):
        depth += (words[at] in "([{") - (words[at] in ")]}")
        if depth == 0:
            return at
    return None


def _beginning(words: list[str], at: int) -> int:
    """Where the chain of names and calls begins that ends with this name."""
    while at >= 2 and words[at - 1] == ".":
        at -= 2
        while words[at] in _OPENS and at > 0:
            depth = 1
            while depth and at > 0:
                at -= 1
                depth += (words[at] in ")]") - (words[at] in "([")
            at -= at > 0 and (words[at - 1][-1:].isalnum() or words[at - 1] in _OPENS)
    return at
