"""The two kinds of node rejection, and their messages.

A message begins with the text of kube-scheduler, which people search for; details follow.
"""

from collections.abc import Iterable

from trimtab.decide.framework import Reason

UNSCHEDULABLE = "Unschedulable"
"""Removing pods from the node may help."""
UNRESOLVABLE = "UnschedulableAndUnresolvable"
"""Removing pods from the node does not help."""

_DETAIL_SEPARATOR, _MESSAGE_SEPARATOR = " - ", "; "


def unschedulable_reason(message: str, detail: str = "") -> Reason:
    return Reason(UNSCHEDULABLE, with_detail(message, detail))


def unresolvable_reason(message: str, detail: str = "") -> Reason:
    return Reason(UNRESOLVABLE, with_detail(message, detail))


def with_detail(message: str, detail: str) -> str:
    return f"{message}{_DETAIL_SEPARATOR}{detail}" if detail else message


def join_messages(messages: Iterable[str]) -> str:
    return _MESSAGE_SEPARATOR.join(messages)


def messages_of(reason: Reason) -> list[str]:
    """Return the messages without details, so that nodes can be counted by message."""
    return [part.partition(_DETAIL_SEPARATOR)[0] for part in reason.message.split(_MESSAGE_SEPARATOR)]
