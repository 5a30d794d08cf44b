from pod_builders import node, pod

from trimtab.api.selectors import LabelSelector
from trimtab.decide.pods.descheduling.cluster_view import ClusterView
from trimtab.decide.pods.descheduling.evictor import CycleLimits, DeschedulingCycle, EvictionOutcome, MoverRun
from trimtab.decide.pods.descheduling.movers import NamespaceFilter, PodFilterArgs, each_pod, evict_pods, run_mover
from trimtab.decide.pods.node_info import build_pod_info

FAILED = {"phase": "Failed"}
PODS = [
    pod("p", on="a"),
    pod("q", on="a", app="other"),
    pod("r", on="b", namespace="else"),
    pod("f", on="b", status=FAILED),
]
NODES = [node("a"), node("b")]


def mover_run(limits: CycleLimits | None = None) -> MoverRun:
    return MoverRun(DeschedulingCycle(ClusterView.of(NODES, PODS), limits=limits or CycleLimits()))


def test_arguments_select_pods_by_namespace_and_label() -> None:
    def names(args: PodFilterArgs, *, finished: bool = False) -> list[str]:
        return [one.name for _, one in each_pod(mover_run(), args, finished=finished)]

    assert names(PodFilterArgs()) == ["p", "q", "r"]
    assert names(PodFilterArgs(), finished=True) == ["p", "q", "f", "r"]
    assert names(PodFilterArgs(namespaces=NamespaceFilter(exclude=("else",)))) == ["p", "q"]
    assert names(PodFilterArgs(label_selector=LabelSelector(match_labels={"app": "other"}))) == ["q"]
    assert PodFilterArgs(namespaces=NamespaceFilter(include=("a",), exclude=("b",))).validation_error()


def test_a_full_node_is_skipped_and_a_full_cycle_ends_the_mover() -> None:
    pods = [(build_pod_info(one), "reason") for one in PODS[:3]]
    run = mover_run(CycleLimits(per_node=1))
    assert evict_pods(pods, run) is EvictionOutcome.EVICTED
    assert [one.pod.name for one in run.cycle.evictions] == ["p", "r"]
    assert evict_pods(pods, mover_run(CycleLimits(total=1))) is EvictionOutcome.TOTAL_LIMIT


def test_mover_needs_at_least_two_nodes() -> None:
    failed = [pod("f", on="a", status=FAILED)]
    for nodes, expected in ((NODES[:1], 0), (NODES, 1)):
        cycle = DeschedulingCycle(ClusterView.of(nodes, failed))
        run_mover("RemoveFailedPods", {}, cycle)
        assert len(cycle.evictions) == expected
