"""Which kinds users may propagate to members."""

from trimtab.client.client import Resource

OWN_GROUPS = ("karmada.io", "open-cluster-management.io", "trimtab.dev")
NEVER_PROPAGATED = {
    "events",
    "events.events.k8s.io",
    "leases.coordination.k8s.io",
    "nodes",
    "componentstatuses",
    "controllerrevisions.apps",
}
"""Kinds whose objects describe one API server only."""


def is_propagatable(resource: Resource) -> bool:
    """Whether users may propagate objects of this kind."""
    own = any(resource.group == group or resource.group.endswith("." + group) for group in OWN_GROUPS)
    return not own and resource.id not in NEVER_PROPAGATED
