"""Which objects a policy selects, and with which priority."""

from collections.abc import Iterable

import msgspec

from trimtab.api.kinds.policy import ResourceSelector
from trimtab.api.paths import object_at, objects_at, string_at
from trimtab.api.value import Raw

NO_MATCH, MATCH_ANY, MATCH_BY_LABEL, MATCH_BY_NAME = range(4)


def selector_priority(selector: ResourceSelector, obj: Raw) -> int:
    """How specifically a `resourceSelectors` entry selects `obj`: 0 not at all, 1 any object, 2 by label, 3 by name."""
    if selector.api_version != obj.get("apiVersion") or selector.kind != obj.get("kind"):
        return NO_MATCH
    if selector.namespace and selector.namespace != string_at(obj, "metadata", "namespace"):
        return NO_MATCH
    if selector.name:
        return MATCH_BY_NAME if selector.name == string_at(obj, "metadata", "name") else NO_MATCH
    if selector.label_selector is None:
        return MATCH_ANY
    return MATCH_BY_LABEL if selector.label_selector.matches(object_at(obj, "metadata", "labels")) else NO_MATCH


def policy_priority(selectors: Iterable[ResourceSelector], obj: Raw) -> int:
    """The highest priority of several entries; no entries at all select every object."""
    return max((selector_priority(selector, obj) for selector in selectors), default=MATCH_ANY)


def selectors_of(policy: Raw) -> list[ResourceSelector]:
    """The `resourceSelectors` of a policy in wire form."""
    return msgspec.convert(objects_at(policy, "spec", "resourceSelectors"), list[ResourceSelector], strict=False)
