"""The two kinds of node rejection, and their messages.

A message begins with the text of kube-scheduler, which people search for; details follow.
"""

from collections.abc import Iterable

from trimtab.decide.framework import Reason

CROWDED = "Unschedulable"
"""Removing pods from the node may help."""
HOPELESS = "UnschedulableAndUnresolvable"
"""Removing pods from the node does not help."""

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
    """Return the messages without details, so that nodes can be counted by message."""
    return [part.partition(_DETAIL)[0] for part in reason.message.split(_NEXT)]
