from typing import Any, cast

from pod_builders import node, pod

from trimtab.decide.pods.node_info import build_pod_info
from trimtab.decide.pods.node_snapshot import NodeSnapshot
from trimtab.runtime.cache import Cache
from trimtab.simulate.scheduling.cluster_state import ClusterState

NAME = ("default", "web")


def new_state() -> tuple[ClusterState, list[str]]:
    calls: list[str] = []
    state = ClusterState(cast("Cache", None), lambda: calls.append("capacity"))
    state.fleet = NodeSnapshot.of([node("one", cpu="4")])
    return state, calls


def free_cpu(state: ClusterState) -> int:
    here: Any = state.fleet.get("one")
    return here.free_amount("cpu")


def test_assumed_pod_counts_before_it_is_bound_and_once_when_it_is() -> None:
    state, _ = new_state()
    state.assume(build_pod_info(pod("web", cpu="1")), "one")
    assert (free_cpu(state), state.is_assumed(NAME)) == (3000, True)
    state.add_bound_pod(NAME, pod("web", cpu="1"), pod("web", "one", cpu="1"))
    assert (free_cpu(state), state.is_assumed(NAME)) == (3000, False)


def test_released_pod_frees_its_capacity_and_says_so() -> None:
    state, calls = new_state()
    state.assume(build_pod_info(pod("web", cpu="1")), "one")
    assert state.release(NAME)
    assert (free_cpu(state), calls) == (4000, ["capacity"])
    assert not state.release(NAME)


def test_removed_pod_frees_its_capacity() -> None:
    state, calls = new_state()
    state.add_bound_pod(NAME, None, pod("web", "one", cpu="1"))
    assert free_cpu(state) == 3000
    state.remove_bound_pod(pod("web", "one", cpu="1"))
    assert (free_cpu(state), calls) == (4000, ["capacity"])
