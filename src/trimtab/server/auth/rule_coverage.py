"""Compares rules that somebody grants with the rules that he holds."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from trimtab.api.value import Raw
from trimtab.server.auth.authorize import Action, rule_allows

_MAX_COMPARISONS = 200_000
"""Comparisons of two rules or of one action with one rule, so that rules with long lists do not block the server."""


class TooManyCombinations(Exception):
    """The granted rules are too many single actions to compare."""


class _RuleSets(NamedTuple):
    """The parts of a rule as sets."""

    verbs: frozenset[str]
    groups: frozenset[str]
    resources: frozenset[str]
    names: frozenset[str]
    paths: frozenset[str]


def _as_sets(rule: Raw) -> _RuleSets:
    keys = ("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs")
    return _RuleSets(*(frozenset(rule.get(key) or ()) for key in keys))


def _contains(held: frozenset[str], granted: frozenset[str]) -> bool:
    return "*" in held or granted <= held


def _covers_whole(held: _RuleSets, granted: _RuleSets) -> bool:
    """Whether one rule alone literally allows all that another one allows."""
    return (
        _contains(held.verbs, granted.verbs)
        and _contains(held.paths, granted.paths)
        and _contains(held.groups, granted.groups)
        and _contains(held.resources, granted.resources)
        and (not held.names or not granted.resources or (bool(granted.names) and granted.names <= held.names))
    )


class _Comparison:
    """The rules of one user, and how many comparisons are left."""

    def __init__(self, held: Sequence[Raw]) -> None:
        self._held = [(rule, _as_sets(rule)) for rule in held]
        self._left = _MAX_COMPARISONS

    def _count(self, comparisons: int) -> None:
        self._left -= comparisons
        if self._left < 0:
            raise TooManyCombinations

    def missing(self, granted: Raw) -> Iterator[Action]:
        sets = _as_sets(granted)
        self._count(len(self._held))
        if any(_covers_whole(held, sets) for _, held in self._held):
            return
        for verb in sets.verbs:
            self._count(len(self._held))
            by_verb = [own for own in self._held if verb == "head" or _contains(own[1].verbs, frozenset((verb,)))]
            yield from self._not_allowed((Action(verb, path=path) for path in sets.paths), [own for own, _ in by_verb])
            for group in sets.groups:
                self._count(1 + len(by_verb))
                by_group = [own for own, held in by_verb if _contains(held.groups, frozenset((group,)))]
                yield from self._not_allowed(_resource_actions(verb, group, sets), by_group)

    def _not_allowed(self, actions: Iterator[Action], rules: list[Raw]) -> Iterator[Action]:
        for action in actions:
            self._count(1 + len(rules))
            if not any(rule_allows(rule, action) for rule in rules):
                yield action


def _resource_actions(verb: str, group: str, sets: _RuleSets) -> Iterator[Action]:
    for resource in sets.resources:
        parent, _, subresource = resource.partition("/")
        for name in sets.names or ("",):
            yield Action(verb, group, parent, subresource, "", name)


def missing_actions(held: Sequence[Raw], granted: Sequence[Raw]) -> list[Action]:
    """The single actions of the granted rules that no held rule allows, sorted; `*` is compared literally."""
    comparison = _Comparison(held)
    return sorted({action for rule in granted for action in comparison.missing(rule)})
