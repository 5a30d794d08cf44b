"""Which objects a policy selects, and with which priority."""

from collections.abc import Sequence

import msgspec

from trimtab.api.paths import object_at, string_at
from trimtab.api.selectors import LabelSelector
from trimtab.api.value import Raw

NO_MATCH, MATCH_ANY, MATCH_BY_LABEL, MATCH_BY_NAME = range(4)


def selector_priority(selector: Raw, obj: Raw) -> int:
    """How specifically a `resourceSelectors` entry selects `obj`: 0 not at all, 1 any object, 2 by label, 3 by name."""
    if selector.get("apiVersion") != obj.get("apiVersion") or selector.get("kind") != obj.get("kind"):
        return NO_MATCH
    if (namespace := string_at(selector, "namespace")) and namespace != string_at(obj, "metadata", "namespace"):
        return NO_MATCH
    if name := string_at(selector, "name"):
        return MATCH_BY_NAME if name == string_at(obj, "metadata", "name") else NO_MATCH
    if (labels := selector.get("labelSelector")) is None:
        return MATCH_ANY
    wanted = msgspec.convert(labels, LabelSelector, strict=False)
    return MATCH_BY_LABEL if wanted.matches(object_at(obj, "metadata", "labels")) else NO_MATCH


def policy_priority(selectors: Sequence[Raw], obj: Raw) -> int:
    """The highest priority of several entries; no entries at all select every object."""
    return max((selector_priority(selector, obj) for selector in selectors), default=MATCH_ANY)
