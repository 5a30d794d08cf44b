"""The freeze of all moves as a refusal of the gate.

`spec.freeze` of the DisruptionPolicy is for the moment in which somebody sees that the fleet does the wrong thing and does not
know yet why. It stops voluntary and involuntary moves alike, of workloads between clusters and of pods between nodes. It does
not stop scaling, first placements, or the roll-out of a new template: they take nothing away from a cluster.
"""

from trimtab.api.kinds.disruption import DisruptionPolicy, Freeze
from trimtab.decide.gate import GateRefusal

FROZEN = "MovesFrozen"


def freeze_of(policy: DisruptionPolicy | None) -> Freeze | None:
    return policy.spec.freeze if policy is not None else None


def freeze_refusal(policy: DisruptionPolicy | None) -> GateRefusal | None:
    """Why nothing may move; None when moves are not frozen."""
    freeze = freeze_of(policy)
    return GateRefusal(FROZEN, format_freeze(freeze)) if freeze is not None else None


def format_freeze(freeze: Freeze) -> str:
    since = f" since {freeze.since:%Y-%m-%d %H:%M:%SZ}" if freeze.since is not None else ""
    by = f" by {freeze.by}" if freeze.by else ""
    reason = f" ({freeze.reason})" if freeze.reason else ""
    return f"all moves are frozen{since}{by}{reason}; `trimtab thaw` releases them"
