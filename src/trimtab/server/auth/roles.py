"""The rules that a role results in: its own, and those of every ClusterRole that it aggregates."""

from collections.abc import Iterator, Mapping

from trimtab.api.kinds.native.rules.common import selector_matches
from trimtab.api.value import Raw

_SELECTOR_OPERATORS = {"In", "NotIn", "Exists", "DoesNotExist"}
Roles = Mapping[str, Raw]
"""All ClusterRoles by name."""


def _selects(aggregate: Raw, role: Raw) -> bool:
    labels = role["metadata"].get("labels") or {}
    selectors = (aggregate.get("aggregationRule") or {}).get("clusterRoleSelectors") or ()
    return any(_is_valid(selector) and selector_matches(selector, labels) for selector in selectors)


def _is_valid(selector: Raw) -> bool:
    """Whether a selector has known operators only; a role stored by an earlier version may have others."""
    return all(rule.get("operator") in _SELECTOR_OPERATORS for rule in selector.get("matchExpressions") or ())


def resulting_rules(name: str, roles: Roles) -> list[Raw]:
    """The rules of a ClusterRole and of all that it aggregates, directly or through other aggregates."""
    return [rule for member in _closure(name, roles) for rule in roles[member].get("rules") or ()]


def _closure(name: str, roles: Roles) -> Iterator[str]:
    seen, pending = {name}, [name] if name in roles else []
    while pending:
        member = pending.pop()
        yield member
        role = roles[member]
        if not role.get("aggregationRule"):
            continue
        found = [other for other in roles if other not in seen and _selects(role, roles[other])]
        seen.update(found)
        pending += found


def aggregates_of(name: str, roles: Roles) -> list[str]:
    """Every other ClusterRole that aggregates this one, directly or through other aggregates."""
    aggregating = {other: role for other, role in roles.items() if role.get("aggregationRule")}
    found: dict[str, None] = {}
    pending = [name]
    while pending:
        member = roles[pending.pop()]
        direct = [other for other, role in aggregating.items() if other not in found and _selects(role, member)]
        found.update(dict.fromkeys(direct))
        pending += direct
    found.pop(name, None)
    return list(found)
