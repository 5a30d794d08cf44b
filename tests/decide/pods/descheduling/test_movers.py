from pod_builders import node, pod

from trimtab.api.selectors import LabelSelector
from trimtab.decide.pods.descheduling.cluster_view import Scene
from trimtab.decide.pods.descheduling.evictor import Answer, Cycle, Limits, Round
from trimtab.decide.pods.descheduling.movers import Namespaces, PodArgs, each_pod, run_mover, take
from trimtab.decide.pods.node_info import resident

FAILED = {"phase": "Failed"}
PODS = [
    pod("p", on="a"),
    pod("q", on="a", app="other"),
    pod("r", on="b", namespace="else"),
    pod("f", on="b", status=FAILED),
]
NODES = [node("a"), node("b")]


def mover_run(limits: Limits | None = None) -> Round:
    return Round(Cycle(Scene.of(NODES, PODS), limits=limits or Limits()))


def test_arguments_select_pods_by_namespace_and_label() -> None:
    def names(args: PodArgs, *, finished: bool = False) -> list[str]:
        return [one.name for _, one in each_pod(mover_run(), args, finished=finished)]

    assert names(PodArgs()) == ["p", "q", "r"]
    assert names(PodArgs(), finished=True) == ["p", "q", "f", "r"]
    assert names(PodArgs(namespaces=Namespaces(exclude=("else",)))) == ["p", "q"]
    assert names(PodArgs(label_selector=LabelSelector(match_labels={"app": "other"}))) == ["q"]
    assert PodArgs(namespaces=Namespaces(include=("a",), exclude=("b",))).complaint()


def test_a_full_node_is_skipped_and_a_full_cycle_ends_the_mover() -> None:
    pods = [(resident(one), "reason") for one in PODS[:3]]
    run = mover_run(Limits(per_node=1))
    assert take(pods, run) is Answer.EVICTED
    assert [one.pod.name for one in run.cycle.evictions] == ["p", "r"]
    assert take(pods, mover_run(Limits(total=1))) is Answer.TOTAL_LIMIT


def test_mover_needs_at_least_two_nodes() -> None:
    failed = [pod("f", on="a", status=FAILED)]
    for nodes, expected in ((NODES[:1], 0), (NODES, 1)):
        cycle = Cycle(Scene.of(nodes, failed))
        run_mover("RemoveFailedPods", {}, cycle)
        assert len(cycle.evictions) == expected
