"""The two ways in which a node can be refused, and the words for it.

A refusal begins with the words that kube-scheduler uses, which people search for; what it means here follows.
"""

from collections.abc import Iterable

from trimtab.decide.framework import Reason

CROWDED = "Unschedulable"
"""Removing other pods may help."""
HOPELESS = "UnschedulableAndUnresolvable"
"""Nothing that happens to other pods of this node would help."""

_DETAIL, _NEXT = " - ", "; "


def crowded(words: str, detail: str = "") -> Reason:
    return Reason(CROWDED, told(words, detail))


def hopeless(words: str, detail: str = "") -> Reason:
    return Reason(HOPELESS, told(words, detail))


def told(words: str, detail: str) -> str:
    return f"{words}{_DETAIL}{detail}" if detail else words


def several(parts: Iterable[str]) -> str:
    return _NEXT.join(parts)


def words_of(reason: Reason) -> list[str]:
    """The words alone, without what they mean here, so that nodes can be counted by them."""
    return [part.partition(_DETAIL)[0] for part in reason.message.split(_NEXT)]
