"""The pod garbage collector: limits the number of terminated pods."""

from collections.abc import Iterator

from trimtab.api.kinds.native.pod import Pod
from trimtab.controllers.contract import Delete, Effect, Index, View
from trimtab.simulate.workloads.owned_pods import oldest_first
from trimtab.simulate.workloads.registry import workload

MOST = 1000
"""Kubernetes keeps 12500 by default; a fleet in one process cannot."""
ENDED = Index("ended-pods", Pod, lambda pod: ("yes",) if pod.terminal else ())


def _ends(old: Pod | None, new: Pod) -> bool:
    return new.is_terminal and (old is None or not old.is_terminal)


@workload(Pod, writes=["Pod"], changed=_ends, name="pod-garbage")
def pod_garbage(pod: Pod, view: View) -> Iterator[Effect]:
    terminated = view.by_index(ENDED, "yes")
    for one in oldest_first(terminated)[: max(0, len(terminated) - MOST)]:
        yield Delete(one)
