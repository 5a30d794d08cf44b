"""Takes a cluster that is forced out of the fleet out of its bindings at once; the scheduler then places them again."""

from collections.abc import Iterable, Iterator

from trimtab.api.kind import key_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.work import Binding, ClusterResourceBinding, ResourceBinding
from trimtab.api.value import Key
from trimtab.controllers import well_known
from trimtab.controllers.clusters.departure import is_any_emptied, is_forced_out
from trimtab.controllers.contract import Effect, RecordEvent, RequeueAfter, Trigger, View, controller, never
from trimtab.controllers.movement import binding_moves, state
from trimtab.controllers.movement.cluster_departure import CLUSTER_USES, SOURCE, USES, clusters_in_use
from trimtab.controllers.movement.freeze import current_freeze
from trimtab.controllers.movement.gate import AT_ONCE
from trimtab.decide.gate import Transfer

FROZEN_RETRY_SECONDS = 15.0
MESSAGE = "forced: the cluster left the fleet with its copies"


def bindings_forced_out(old: Cluster | None, new: Cluster | None, view: View) -> Iterable[Key]:
    if new is None or not is_forced_out(new, view.profile):
        return
    for binding in (*view.by_index(USES, new.name), *view.by_index(CLUSTER_USES, new.name)):
        yield key_of(binding)


def binding_with_other_clusters(old: Binding | None, new: Binding | None, view: View) -> Iterable[Key]:
    """The binding, if it uses other clusters than before and any cluster leaves.

    Clusters wake bindings through `bindings_forced_out`, also those that were unknown before.
    """
    if new is None or not is_any_emptied(view):
        return
    if old is None or clusters_in_use(old) != clusters_in_use(new):
        yield key_of(new)


@controller(
    *well_known.BINDINGS,
    writes=[
        "spec.clusters",
        "spec.gracefulEvictionTasks",
        "status.holds",
        "status.replacement",
        "status.conditions[Stalled]",
        "Move",
    ],
    predicate=never,
    triggers=[
        Trigger(ResourceBinding, binding_with_other_clusters),
        Trigger(ClusterResourceBinding, binding_with_other_clusters),
        Trigger(Cluster, bindings_forced_out),
    ],
    resumes=True,
)
def forced_departure(binding: Binding, view: View) -> Iterator[Effect]:
    if binding.metadata.deletion_timestamp is not None:
        return
    after = binding
    used = sorted(clusters_in_use(binding))
    forced_out = [name for name in used if is_forced_out(view.get(Cluster, "", name), view.profile)]
    if forced_out and current_freeze(view) is not None:
        yield RequeueAfter(FROZEN_RETRY_SECONDS)
        return
    for name in forced_out:
        after = state.drop_cluster(after, name)
        shares = binding_moves.current_placement(binding)
        if name in shares:
            cause = binding_moves.MoveCause("Drain", SOURCE, AT_ONCE, message=MESSAGE)
            move = binding_moves.move_of_binding(binding, Transfer(name, shares[name]), cause, view.now)
            if view.get(type(move), move.namespace, move.name) is None:
                yield binding_moves.with_outcome(move, "Done", MESSAGE, view.now)
    if after == binding:
        return
    yield binding_moves.with_stalled_condition(after, "", "", view.now)  # nothing waits for a move out of it any more
    text = "Copies are deleted at once: their cluster is forced out of the fleet."
    yield RecordEvent(well_known.ref_of(binding), "ForcedOut", text, SOURCE, "Warning")
