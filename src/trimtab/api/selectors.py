"""Label selectors, as in objects and in the `labelSelector` query parameter."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

from trimtab.api.text_cache import cache_short_texts
from trimtab.api.value import Field, Value


class LabelSelectorRequirement(Value):
    key: Annotated[str, Field("The label key.", required=True)] = ""
    operator: Annotated[
        str, Field("How the label is compared with the values: In, NotIn, Exists or DoesNotExist.", required=True)
    ] = ""
    values: Annotated[
        tuple[str, ...], Field("The values to compare with; none for Exists and DoesNotExist.", list_type="atomic")
    ] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels fulfil it; one with an unknown operator is fulfilled by none."""
        compare = _OPERATORS.get(self.operator)
        return compare is not None and compare(self.key, self.values, labels)

    def has_known_operator(self) -> bool:
        return self.operator in _OPERATORS


class LabelSelector(Value):
    """All parts must match; an empty selector matches everything."""

    match_labels: Annotated[dict[str, str], Field("Labels that must have exactly these values.")] = {}
    match_expressions: Annotated[
        tuple[LabelSelectorRequirement, ...], Field("Requirements on labels; all must match.", list_type="atomic")
    ] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(labels.get(k) == v for k, v in self.match_labels.items()) and all(
            rule.matches(labels) for rule in self.match_expressions
        )


def _in(key: str, values: tuple[str, ...], labels: Mapping[str, str]) -> bool:
    return key in labels and labels[key] in values


def _not_in(key: str, values: tuple[str, ...], labels: Mapping[str, str]) -> bool:
    return key not in labels or labels[key] not in values


def _exists(key: str, values: tuple[str, ...], labels: Mapping[str, str]) -> bool:
    return key in labels


def _does_not_exist(key: str, values: tuple[str, ...], labels: Mapping[str, str]) -> bool:
    return key not in labels


def _parse_int(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[+-]?\d{1,19}", text) else None


def _compare_numbers(key: str, values: tuple[str, ...], labels: Mapping[str, str], sign: int) -> bool:
    mine, bound = _parse_int(labels.get(key, "")), _parse_int(values[0] if values else "")
    return mine is not None and bound is not None and (mine - bound) * sign > 0


def _gt(key: str, values: tuple[str, ...], labels: Mapping[str, str]) -> bool:
    return _compare_numbers(key, values, labels, 1)


def _lt(key: str, values: tuple[str, ...], labels: Mapping[str, str]) -> bool:
    return _compare_numbers(key, values, labels, -1)


_OPERATORS = {
    "In": _in,
    "NotIn": _not_in,
    "Exists": _exists,
    "DoesNotExist": _does_not_exist,
    "Gt": _gt,
    "Lt": _lt,
}


_OPERATOR_TEXTS = {"In": "in", "NotIn": "notin"}


def format_selector(selector: Mapping[str, Any]) -> str:
    """The text of a label selector in wire form, as a query parameter has it."""
    rules = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for rule in selector.get("matchExpressions") or ():
        key, operator = rule["key"], rule["operator"]
        if operator in _OPERATOR_TEXTS:
            rules.append(f"{key} {_OPERATOR_TEXTS[operator]} ({','.join(rule.get('values') or ())})")
        else:
            rules.append(key if operator == "Exists" else f"!{key}")
    return ",".join(rules)


class InvalidSelector(ValueError):
    """A selector text that cannot be parsed."""


class ParsedSelector(NamedTuple):
    """A parsed `labelSelector=` query: every rule must match."""

    rules: tuple[LabelSelectorRequirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(rule.matches(labels) for rule in self.rules)


_SET_RULE = re.compile(r"\s*+([^\s,=!()<>]++)\s++(in|notin)\s*+\(([^()]*+)\)\s*+\Z")
_EQUALITY = re.compile(r"\s*+([^\s,=!()<>]++)\s*+(==|=|!=|>|<)\s*+([^\s,=!()<>]*+)\s*+\Z")
_PRESENCE = re.compile(r"\s*+(!?)\s*+([^\s,=!()<>]++)\s*+\Z")


def _split_rules(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for i, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    parts.append(text[start:])
    return parts


def _parse_rule(text: str) -> LabelSelectorRequirement:
    if match := _SET_RULE.match(text):
        values = tuple(sorted({v.strip() for v in match[3].split(",")}))
        return LabelSelectorRequirement(key=match[1], operator="In" if match[2] == "in" else "NotIn", values=values)
    if match := _EQUALITY.match(text):
        operator = {"=": "In", "==": "In", "!=": "NotIn", ">": "Gt", "<": "Lt"}[match[2]]
        return LabelSelectorRequirement(key=match[1], operator=operator, values=(match[3],))
    if match := _PRESENCE.match(text):
        return LabelSelectorRequirement(key=match[2], operator="DoesNotExist" if match[1] else "Exists")
    raise InvalidSelector(f"unable to parse requirement: {text.strip()!r}")


@cache_short_texts(1024)
def parse_selector(text: str) -> ParsedSelector:
    """A selector as clients write it: `a=b,c!=d,e in (f,g),h,!i`."""
    if not text.strip():
        return ParsedSelector()
    return ParsedSelector(tuple(_parse_rule(part) for part in _split_rules(text)))
