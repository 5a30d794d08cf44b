"""Approvals: voluntary moves that a person must release before they begin.

A move needs approval when a DisruptionBudget over the workload or the DisruptionPolicy has `approval: Required`, or when the
policy that propagates the workload has the annotation `trimtab.dev/approval: Required`. The gate then refuses the move, and
`status.pendingApproval` of the binding says what would happen. A person releases exactly that by writing the text of the move
(`approval_text`) into the annotation `trimtab.dev/approved-move` of the binding, as `trimtab approve` and the console do.
The permission to approve is therefore the permission to patch bindings.

If the scheduler decides differently afterwards, the texts differ and the new move waits again. The scheduler removes
the annotation when the move has begun as a whole, so an approval releases one move and not the same one next year.
Failover is involuntary and never waits.
"""

from collections.abc import Mapping, Sequence

from trimtab.api.kinds.disruption import DisruptionBudget, DisruptionPolicy
from trimtab.api.kinds.policy import ClusterPropagationPolicy, PropagationPolicy
from trimtab.api.kinds.work import Binding, PendingApproval
from trimtab.controllers import well_known
from trimtab.controllers.contract import View
from trimtab.decide.gate import GateRefusal

REQUIRED = "Required"
APPROVAL_REQUIRED = "ApprovalRequired"


def approval_text(cause: str, shares: Mapping[str, int]) -> str:
    """The move as one line: its cause and the placement after it. Equal moves have equal texts."""
    return " ".join([cause, *(f"{name}={n}" for name, n in sorted(shares.items()))])


def text_of(pending: PendingApproval) -> str:
    return approval_text(pending.cause, {target.name: target.replicas for target in pending.clusters})


def required_by(binding: Binding, budgets: Sequence[DisruptionBudget], view: View) -> str:
    """What requires an approval for voluntary moves of this workload; empty when nothing does."""
    for budget in budgets:
        if budget.spec.approval == REQUIRED:
            return f"budget {budget.name}"
    settings = view.get(DisruptionPolicy, "", "default")
    if settings is not None and settings.spec.approval == REQUIRED:
        return "the DisruptionPolicy"
    policy = policy_of(binding, view)
    if policy is not None and policy.metadata.annotations.get(well_known.APPROVAL) == REQUIRED:
        return f"policy {policy.name}"
    return ""


def policy_of(binding: Binding, view: View) -> PropagationPolicy | ClusterPropagationPolicy | None:
    """The policy that propagates the workload."""
    annotations = binding.metadata.annotations
    if name := annotations.get(well_known.PP_NAME):
        return view.get(PropagationPolicy, annotations.get(well_known.PP_NAMESPACE, binding.namespace), name)
    name = annotations.get(well_known.CPP_NAME, "")
    return view.get(ClusterPropagationPolicy, "", name) if name else None


def missing_approval(
    binding: Binding, cause: str, shares: Mapping[str, int], budgets: Sequence[DisruptionBudget], view: View
) -> GateRefusal | None:
    """Why the move waits for a person; None when it needs no approval or has it."""
    source = required_by(binding, budgets, view)
    if not source or binding.metadata.annotations.get(well_known.APPROVED_MOVE) == approval_text(cause, shares):
        return None
    kind, name = binding.spec.resource.kind.lower(), binding.spec.resource.name
    namespace = f" -n {binding.namespace}" if binding.namespace not in ("", "default") else ""
    command = f"trimtab approve {kind}/{name}{namespace}"
    return GateRefusal(APPROVAL_REQUIRED, f"{source} requires an approval: {command}")


def without_approval(binding: Binding) -> Binding:
    """The binding without an approval, which is used up."""
    if well_known.APPROVED_MOVE not in binding.metadata.annotations:
        return binding
    kept = {key: value for key, value in binding.metadata.annotations.items() if key != well_known.APPROVED_MOVE}
    return binding.but(metadata=binding.metadata.but(annotations=kept))
