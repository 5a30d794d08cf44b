"""Placement requests of bindings, with the feature gates and the other workloads that a View knows."""

from collections.abc import Iterable, Sequence

import msgspec

from trimtab.api.kinds.work import Binding, ResourceBinding
from trimtab.controllers.contract import Index, View
from trimtab.controllers.feature_gates import feature_gates
from trimtab.controllers.quota.member_quotas import quota_room
from trimtab.decide.request import PlacementRequest, placement_request_of


def affinity_groups_of(binding: Binding) -> Iterable[str]:
    """The groups of a binding in its namespace, with which it is placed together or apart."""
    groups = binding.spec.workload_affinity_groups
    if groups is not None:
        if groups.affinity_group:
            yield f"{binding.namespace} with {groups.affinity_group}"
        if groups.anti_affinity_group:
            yield f"{binding.namespace} apart from {groups.anti_affinity_group}"


BINDINGS_OF_GROUP = Index("bindings of an affinity group", ResourceBinding, affinity_groups_of)


def neighbours_of(binding: Binding, view: View) -> Sequence[Binding]:
    """The bindings that share an affinity group with this one."""
    found = {
        other.name: other for group in affinity_groups_of(binding) for other in view.by_index(BINDINGS_OF_GROUP, group)
    }
    return [found[name] for name in sorted(found)]


def request_for(binding: Binding, view: View, candidates: Iterable[str] | None = None) -> PlacementRequest:
    """The request of a binding that has a placement; `candidates` are those of its Placement."""
    others = neighbours_of(binding, view) if binding.spec.workload_affinity_groups is not None else ()
    request = placement_request_of(binding, feature_gates=feature_gates(view), others=others, candidates=candidates)
    room = quota_room(binding, view)
    return msgspec.structs.replace(request, quota_room=room) if room else request
