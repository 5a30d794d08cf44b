"""What would be decided: a decision that nobody writes down, asked for before something is given up."""

from typing import NamedTuple

from trimtab.api.kinds.work import Binding
from trimtab.controllers import well_known
from trimtab.controllers.contract import View
from trimtab.controllers.movement import binding_moves
from trimtab.decide.gate import Flow, flows
from trimtab.decide.karmada import decide
from trimtab.decide.request import Gates, ask_of


class Prospect(NamedTuple):
    """Where a binding would go; or why nowhere."""

    clusters: dict[str, int]
    failure: str = ""


def prospect(binding: Binding, view: View) -> Prospect:
    """Where the scheduler would put this binding as it stands here."""
    if binding.spec.placement is None:
        return Prospect({}, "it has no placement of its own")
    gates = Gates(components=bool(well_known.setting(view, "components", default=False)))
    decision = decide(ask_of(binding, gates=gates), view.part("fleet").at(view.now), view.profile)
    if decision.ok:
        return Prospect(dict(decision.clusters))
    return Prospect({}, decision.condition[2])


def flow_out(binding: Binding, cluster: str, ahead: Prospect) -> Flow:
    """What leaves this cluster, and where it would come up again."""
    before = binding_moves.placement(binding)
    leaving = {name: n for name, n in before.items() if name == cluster or name in ahead.clusters}
    found = next((flow for flow in flows(leaving, ahead.clusters) if flow.source == cluster), None)
    return found or Flow(cluster, before.get(cluster, 0))
