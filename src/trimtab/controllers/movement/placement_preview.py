"""A decision that is computed but not written, to check that an evicted workload has somewhere to go."""

from typing import NamedTuple

from trimtab.api.kinds.work import Binding
from trimtab.controllers.contract import View
from trimtab.controllers.feature_gates import feature_gates
from trimtab.controllers.movement import binding_moves
from trimtab.decide.gate import Transfer, transfers_between
from trimtab.decide.karmada import decide
from trimtab.decide.request import placement_request_of


class Prospect(NamedTuple):
    """Where a binding would be placed, or why nowhere."""

    clusters: dict[str, int]
    failure: str = ""


def prospect(binding: Binding, view: View) -> Prospect:
    """Where the scheduler would place this binding as it is given."""
    if binding.spec.placement is None:
        return Prospect({}, "it has no placement of its own")
    decision = decide(
        placement_request_of(binding, feature_gates=feature_gates(view)), view.part("fleet").at(view.now), view.profile
    )
    if decision.ok:
        return Prospect(dict(decision.clusters))
    return Prospect({}, decision.condition[2])


def flow_out(binding: Binding, cluster: str, ahead: Prospect) -> Transfer:
    """The replicas that leave this cluster, and where they would start again."""
    before = binding_moves.placement(binding)
    leaving = {name: n for name, n in before.items() if name == cluster or name in ahead.clusters}
    found = next(
        (transfer for transfer in transfers_between(leaving, ahead.clusters) if transfer.source == cluster), None
    )
    return found or Transfer(cluster, before.get(cluster, 0))
