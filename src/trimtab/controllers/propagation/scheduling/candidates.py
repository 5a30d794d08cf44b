"""The clusters of the OCM Placement to which the placement of a binding refers."""

from trimtab.api.kinds.ocm_placement import PlacementDecision
from trimtab.api.kinds.work import Binding
from trimtab.controllers.contract import (
    View,
)
from trimtab.decide.ocm.snapshot import PLACEMENT_LABEL


def placement_candidates(binding: Binding, view: View) -> list[str] | None:
    """The clusters of the Placement that this placement refers to; None when it refers to none."""
    ref = binding.spec.placement.placement_ref if binding.spec.placement is not None else None
    if ref is None:
        return None
    pages = view.all(PlacementDecision, ref.namespace or binding.namespace)
    statuses = [page.status for page in pages if page.metadata.labels.get(PLACEMENT_LABEL) == ref.name]
    return [decision.cluster_name for status in statuses if status is not None for decision in status.decisions]


def current_candidates(binding: Binding, view: View) -> tuple[str, ...]:
    """The candidates that the present decision considered."""
    return tuple(sorted(set(placement_candidates(binding, view) or ())))
