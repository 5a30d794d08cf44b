"""A decision that is computed but not written, to check that an evicted workload has somewhere to go."""

from typing import NamedTuple

from trimtab.api.kinds.work import Binding
from trimtab.controllers.contract import View
from trimtab.controllers.movement import binding_moves
from trimtab.controllers.placement_requests import request_for
from trimtab.decide.gate import Transfer, transfers_between
from trimtab.decide.karmada import decide


class PlacementPreview(NamedTuple):
    """Where a binding would be placed, or why nowhere."""

    clusters: dict[str, int]
    failure: str = ""


def preview_placement(binding: Binding, view: View) -> PlacementPreview:
    """Where the scheduler would place this binding as it is given."""
    if binding.spec.placement is None:
        return PlacementPreview({}, "it has no placement of its own")
    decision = decide(request_for(binding, view), view.fleet, view.profile)
    if decision.ok:
        return PlacementPreview(dict(decision.clusters))
    return PlacementPreview({}, decision.condition[2])


def transfer_out_of(binding: Binding, cluster: str, preview: PlacementPreview) -> Transfer:
    """The replicas that leave this cluster, and where they would start again."""
    before = binding_moves.current_placement(binding)
    leaving = {name: n for name, n in before.items() if name == cluster or name in preview.clusters}
    found = next(
        (transfer for transfer in transfers_between(leaving, preview.clusters) if transfer.source == cluster), None
    )
    return found or Transfer(cluster, before.get(cluster, 0))
