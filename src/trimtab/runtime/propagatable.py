"""Which kinds users may propagate to members."""

from trimtab.client.client import Resource

OWN_GROUPS = ("open-cluster-management.io", "trimtab.dev")
KARMADA_GROUPS = frozenset(
    f"{name}.karmada.io"
    for name in (
        "apps",
        "autoscaling",
        "cluster",
        "config",
        "networking",
        "operator",
        "policy",
        "remedy",
        "search",
        "work",
    )
)
"""Karmada's own groups; users may have custom resources in other groups below karmada.io."""
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
    return not own and resource.group not in KARMADA_GROUPS and resource.id not in NEVER_PROPAGATED
