"""The freeze of all moves, as controllers see it.

The gate admits nothing while moves are frozen. The controllers that begin or end moves without the gate (evictions, failovers,
holds, departures) ask here and leave everything as it is: old and new copies of a move in progress both stay. A thaw wakes them.
"""

from collections.abc import Iterable

from trimtab.api.kind import key_of
from trimtab.api.kinds.disruption import DisruptionPolicy
from trimtab.api.value import Key
from trimtab.controllers import well_known
from trimtab.controllers.contract import View
from trimtab.controllers.movement import binding_moves
from trimtab.decide.freeze import freeze_of, freeze_refusal
from trimtab.decide.gate import GateRefusal


def current_freeze(view: View) -> GateRefusal | None:
    """Why nothing may move; None when moves are not frozen."""
    return freeze_refusal(view.get(DisruptionPolicy, "", "default"))


def has_freeze_changed(old: DisruptionPolicy | None, new: DisruptionPolicy | None) -> bool:
    return (freeze_of(old) is None) != (freeze_of(new) is None)


def moving_bindings(old: DisruptionPolicy | None, new: DisruptionPolicy | None, view: View) -> Iterable[Key]:
    """Moves were frozen or thawed: the bindings that wait or have a move in progress."""
    if not has_freeze_changed(old, new):
        return
    for binding in well_known.all_bindings(view):
        if (
            binding.status.holds
            or binding.spec.graceful_eviction_tasks
            or binding.status.unhealthy_clusters
            or binding_moves.stalled_condition_of(binding) is not None
        ):
            yield key_of(binding)
