"""The two ways in which a node can be refused: room may be made on it, or nothing would help."""

from trimtab.decide.framework import Reason

CROWDED = "Unschedulable"
"""Removing other pods may help."""
HOPELESS = "UnschedulableAndUnresolvable"
"""Nothing that happens to other pods of this node would help."""


def crowded(message: str) -> Reason:
    return Reason(CROWDED, message)


def hopeless(message: str) -> Reason:
    return Reason(HOPELESS, message)
