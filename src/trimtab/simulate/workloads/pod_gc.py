"""The pod garbage collector: limits the number of terminated pods."""

from collections.abc import Iterator

from trimtab.api.kinds.native.pod import Pod
from trimtab.controllers.contract import Delete, Effect, Index, View
from trimtab.simulate.workloads.owned_pods import sort_oldest_first
from trimtab.simulate.workloads.registry import workload

MAX_TERMINATED_PODS = 1000
"""Kubernetes keeps 12500 by default; a fleet in one process cannot."""
TERMINATED_PODS = Index("ended-pods", Pod, lambda pod: ("yes",) if pod.is_terminal else ())


def _has_just_terminated(old: Pod | None, new: Pod) -> bool:
    return new.is_terminal and (old is None or not old.is_terminal)


@workload(Pod, writes=["Pod"], predicate=_has_just_terminated, name="pod-garbage")
def pod_gc(pod: Pod, view: View) -> Iterator[Effect]:
    terminated = view.by_index(TERMINATED_PODS, "yes")
    for one in sort_oldest_first(terminated)[: max(0, len(terminated) - MAX_TERMINATED_PODS)]:
        yield Delete(one)
