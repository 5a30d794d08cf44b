"""Adjusts a decision to the intent of its binding: shares that are kept or restored where the decision allows them."""

from collections.abc import Iterable

import msgspec

from trimtab.api.kinds.work import Binding, TargetCluster
from trimtab.controllers.movement import binding_moves
from trimtab.controllers.propagation.scheduling.intent import SchedulingIntent
from trimtab.decide.explain import explain
from trimtab.decide.karmada import BindingDecision
from trimtab.decide.request import DUPLICATED
from trimtab.decide.shares import ReplicaShares


def adjust_to_intent(binding: Binding, decision: BindingDecision, intent: SchedulingIntent) -> BindingDecision:
    """The decision with the shares that the intent keeps or restores, where the decision allows them."""
    if intent.only_if_fewer_clusters and decision.ok and len(decision.clusters) >= len(binding.spec.clusters):
        return with_shares(decision, binding.spec.clusters)
    if intent.keep and decision.ok and decision.request.placement.strategy != DUPLICATED:
        return with_kept_shares(decision, intent.keep)
    wanted = [(target.name, target.replicas) for target in intent.restore]
    fits = decision.ok and sum(n for _, n in wanted) == sum(n for _, n in decision.clusters)
    if not wanted or not fits or {name for name, _ in wanted} != {name for name, _ in decision.clusters}:
        return decision
    limits = {one.name: one.before for one in explain(decision).clusters if one.limited is not None}
    if any(n > limits.get(name, n) for name, n in wanted):
        return decision
    return with_shares(decision, intent.restore)


def with_kept_shares(decision: BindingDecision, keep: Iterable[TargetCluster]) -> BindingDecision:
    """The decision with at least these shares in feasible clusters; otherwise the weights alone would move replicas."""
    allowed = {one.name for one in explain(decision).clusters if one.refused is None}
    kept = {target.name: target.replicas for target in keep if target.name in allowed}
    shares = {name: max(n, kept.get(name, 0)) for name, n in (kept | dict(decision.clusters)).items()}
    surplus = sum(shares.values()) - sum(n for _, n in decision.clusters)
    for name in sorted(shares, key=lambda name: (kept.get(name, 0) - shares[name], name)):
        excess = min(surplus, shares[name] - kept.get(name, 0))
        shares[name] -= excess
        surplus -= excess
    return (
        decision if surplus else with_shares(decision, binding_moves.targets_of({k: n for k, n in shares.items() if n}))
    )


def with_shares(decision: BindingDecision, targets: Iterable[TargetCluster]) -> BindingDecision:
    wanted = sorted((target.name, target.replicas) for target in targets)
    columns, replicas = zip(*((decision.fleet.index[name], n) for name, n in wanted), strict=True)
    return msgspec.structs.replace(decision, shares=ReplicaShares(columns, replicas))
