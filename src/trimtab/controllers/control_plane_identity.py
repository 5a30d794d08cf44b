"""The id by which a control plane marks what it manages in members.

It is the uid of the namespace kube-system of the host: it exists on every API server, survives restarts, and is new with a new
store. A restored copy of a host has the uid of the original, which may still run. So the release of a restored host draws another
id, kept in an annotation of that namespace, and remembers the earlier ones: what carries one of them is taken over, and is
the object of another control plane for an original that still runs.
"""

from collections.abc import Mapping
from typing import NamedTuple

ID_NAMESPACE = "kube-system"
DRAWN_ID = "trimtab.dev/control-plane-id"
FORMER_IDS = "trimtab.dev/former-control-planes"


class ControlPlaneIdentity(NamedTuple):
    own: str
    former: frozenset[str] = frozenset()
    """The ids of control planes whose objects this one takes over."""

    def includes(self, owner: str) -> bool:
        """Whether an object with the mark of this owner belongs to this control plane."""
        return owner == self.own or owner in self.former


def identity_of(uid: str, annotations: Mapping[str, str]) -> ControlPlaneIdentity:
    """The identity that the namespace kube-system of a host gives."""
    own = annotations.get(DRAWN_ID) or uid
    former = annotations.get(FORMER_IDS)
    if not former:
        return ControlPlaneIdentity(own)
    return ControlPlaneIdentity(own, frozenset(filter(None, former.split(","))) - {own})
