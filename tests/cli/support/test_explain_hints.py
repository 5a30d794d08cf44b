"""`trimtab explain` says what would have to change, and what `trimtab purge` would do."""

from builders import cluster

from trimtab import plugins
from trimtab.api.kinds.work import BindingSpec, GracefulEvictionTask, ObjectReference, ResourceBinding
from trimtab.api.value import Meta
from trimtab.cli.support.explain_hints import HINTS, change_lines, has_taint_obstacle, kept_copy_lines
from trimtab.decide.explanation import ClusterExplanation, ClusterRejection, Explanation

WEB = ObjectReference(api_version="apps/v1", kind="Deployment", namespace="shop", name="web")


def binding(**spec: object) -> ResourceBinding:
    return ResourceBinding(metadata=Meta(name="web-deployment"), spec=BindingSpec(resource=WEB, **spec))


def explanation(*codes: str) -> Explanation:
    refusals = tuple(ClusterRejection(plugin="Some", code=code, message="text") for code in codes)
    clusters = (
        ClusterExplanation(name="m1", selected=True),
        ClusterExplanation(name="m2", refused=refusals[0], rejections=refusals),
    )
    return Explanation(ok=True, message="", strategy="", mode="Steady", clusters=clusters)


def test_every_obstacle_of_a_rejected_cluster_has_what_removes_it() -> None:
    lines = list(change_lines(binding(), explanation("Blocked", "UntoleratedTaint")))
    assert lines[0] == "To be chosen:"
    assert lines[1] == "  m2: wait, or allow the cluster again: trimtab unblock deployment/web m2"
    assert "trimtab taint cluster/m2 KEY-" in lines[2]


def test_taint_that_the_control_plane_sets_is_not_removed_by_hand() -> None:
    def hint(taint: str) -> str:
        message = f"cluster(s) had untolerated taint {{{taint}}}"
        refusal = ClusterRejection(plugin="TaintToleration", code="UntoleratedTaint", message=message)
        clusters = (ClusterExplanation(name="m2", refused=refusal, rejections=(refusal,)),)
        found = Explanation(ok=False, message="", strategy="", mode="Steady", clusters=clusters)
        return list(change_lines(binding(), found))[1]

    not_ready = "cluster.karmada.io/not-ready:NoSchedule"
    assert hint(not_ready) == "  m2: wait until the cluster is ready; what is wrong: trimtab explain cluster/m2"
    assert hint("cluster.karmada.io/unschedulable:NoSchedule").endswith(" trimtab uncordon-cluster m2")
    assert hint("gpu=broken:NoExecute").endswith(" trimtab taint cluster/m2 gpu-")


def test_obstacles_of_an_old_decision_that_are_gone_are_not_named() -> None:
    evicting = ClusterRejection(plugin="ClusterEviction", code="Evicting", message="is being evicted")
    tainted = ClusterRejection(
        plugin="TaintToleration", code="UntoleratedTaint", message="had untolerated taint {gpu=broken:NoExecute}"
    )
    clusters = (ClusterExplanation(name="m2", refused=evicting, rejections=(evicting, tainted)),)
    found = Explanation(ok=True, message="", strategy="", mode="Steady", clusters=clusters)
    assert has_taint_obstacle(found)
    evicted = binding(graceful_eviction_tasks=(GracefulEvictionTask(from_cluster="m2"),))
    still = cluster("m2", "gpu:NoExecute")
    assert len(list(change_lines(evicted, found, {"m2": still}))) == 3
    (taint_line,) = list(change_lines(binding(), found, {"m2": still}))[1:]
    assert taint_line.endswith("trimtab taint cluster/m2 gpu-")
    (rebalance_line,) = list(change_lines(binding(), found, {"m2": cluster("m2")}))[1:]
    assert rebalance_line.endswith(
        "nothing keeps it out any more; a new decision may choose it: trimtab rebalance deployment/web -n shop"
    )


def test_cluster_outside_the_affinity_group_in_use_names_that_group() -> None:
    refusal = ClusterRejection(plugin="ClusterAffinity", code="AffinityMismatch", message="text")
    clusters = (ClusterExplanation(name="m1", refused=refusal, rejections=(refusal,)),)
    found = Explanation(ok=True, message="", strategy="", mode="Steady", affinity_name="away", clusters=clusters)
    assert "in the affinity group away, which is in use" in list(change_lines(binding(), found))[1]


def test_clusters_with_the_same_obstacle_share_a_line() -> None:
    refusal = ClusterRejection(plugin="Some", code="AffinityMismatch", message="text")
    clusters = tuple(ClusterExplanation(name=f"m{n:02}", refused=refusal, rejections=(refusal,)) for n in range(12))
    found = Explanation(ok=False, message="", strategy="", mode="Steady", clusters=clusters)
    names = ", ".join(f"m{n:02}" for n in range(10))
    assert list(change_lines(binding(), found)) == [
        "To be chosen:",
        f"  {names} and 2 more: {HINTS['AffinityMismatch']}",
    ]


def test_unknown_reason_names_the_filter_and_its_message() -> None:
    assert list(change_lines(binding(), explanation("Odd")))[1] == "  m2: the filter Some must accept it: text"


def test_all_clusters_selected_needs_no_hint() -> None:
    found = Explanation(ok=True, message="", strategy="", mode="Steady", clusters=(ClusterExplanation(name="m1"),))
    assert list(change_lines(binding(), found)) == []


def test_kept_copy_says_which_command_deletes_how_much() -> None:
    task = GracefulEvictionTask(from_cluster="m1", replicas=3, suppress_deletion=True)
    (line,) = kept_copy_lines(binding(graceful_eviction_tasks=(task,)))
    assert line.endswith("To delete it there, 3 replicas: trimtab purge deployment/web m1 -n shop")
    assert list(kept_copy_lines(binding())) == []


def test_reasons_of_the_filters_have_hints() -> None:
    plugins.load()
    assert {"UntoleratedTaint", "AffinityMismatch", "APINotEnabled", "Blocked"} <= set(HINTS)
