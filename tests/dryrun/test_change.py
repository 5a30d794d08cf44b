"""Changes that plans are about: parsing, and the state after them."""

from datetime import UTC, datetime

import pytest
from builders import cluster

from trimtab.api.kinds.cluster import Cluster
from trimtab.controllers.well_known import DRAIN
from trimtab.dryrun.change import Change, TaintChange, apply_change, lost_clusters, parse_taint
from trimtab.dryrun.fleet_state import FleetState
from trimtab.errors import InputError

NOW = datetime(2030, 1, 1, tzinfo=UTC)
STATE = FleetState.of(
    [cluster("a").but(spec=cluster("a").spec.but(region="eu")), cluster("b")],
    [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "one", "uid": "7"}, "data": {}}],
    NOW,
)


def taints_of(state: FleetState, name: str) -> set[tuple[str, str]]:
    found = state.get(Cluster, "", name)
    assert found is not None
    return {(taint.key, taint.effect) for taint in found.spec.taints}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a:gpu=old:NoExecute", TaintChange(cluster="a", key="gpu", value="old", effect="NoExecute")),
        ("a:gpu:NoSchedule", TaintChange(cluster="a", key="gpu", effect="NoSchedule")),
        ("a:gpu:NoSchedule-", TaintChange(cluster="a", key="gpu", effect="NoSchedule", remove=True)),
        ("a:gpu-", TaintChange(cluster="a", key="gpu", remove=True)),
    ],
)
def test_taints_are_parsed(text: str, wanted: TaintChange) -> None:
    assert parse_taint(text) == wanted


@pytest.mark.parametrize("text", ["", "a", "a:gpu", "a:gpu:Sometimes", ":gpu:NoExecute", "a::NoExecute"])
def test_what_is_not_a_taint_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InputError, match="CLUSTER:KEY"):
        parse_taint(text)


def test_unknown_clusters_and_regions_are_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match="there is no cluster 'z'; clusters: a, b"):
        lost_clusters(STATE, Change(lose_clusters=("z",)))
    with pytest.raises(InputError, match="no cluster is in the region 'us'; regions: eu"):
        lost_clusters(STATE, Change(lose_regions=("us",)))
    with pytest.raises(InputError, match="there is no cluster 'z'"):
        apply_change(STATE, Change(drain=("z",)))
    with pytest.raises(InputError, match="there is no cluster 'z'"):
        apply_change(STATE, Change(taints=(TaintChange(cluster="z", key="k", effect="NoExecute"),)))


def test_a_drain_sets_the_annotation_and_the_cordon() -> None:
    after = apply_change(STATE, Change(drain=("a",)))
    drained = after.get(Cluster, "", "a")
    assert drained is not None
    assert DRAIN in drained.metadata.annotations
    assert taints_of(after, "a") == {("cluster.karmada.io/unschedulable", "NoSchedule")}
    assert STATE.get(Cluster, "", "a") == cluster("a").but(spec=cluster("a").spec.but(region="eu"))


def test_taints_are_set_and_removed() -> None:
    tainted = apply_change(STATE, Change(taints=(parse_taint("a:gpu:NoExecute"), parse_taint("a:gpu:NoSchedule"))))
    assert taints_of(tainted, "a") == {("gpu", "NoExecute"), ("gpu", "NoSchedule")}
    assert taints_of(apply_change(tainted, Change(taints=(parse_taint("a:gpu:NoExecute-"),))), "a") == {
        ("gpu", "NoSchedule")
    }
    assert taints_of(apply_change(tainted, Change(taints=(parse_taint("a:gpu-"),))), "a") == set()


def test_an_applied_template_keeps_what_the_server_set() -> None:
    wanted = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "x", "namespace": "one"},
        "data": {"k": "v"},
    }
    after = apply_change(STATE, Change(objects=(wanted,)))
    found = after.templates["v1", "ConfigMap"]["one", "x"]
    assert (found["metadata"]["uid"], found["data"]) == ("7", {"k": "v"})


def test_an_invalid_object_is_refused_with_its_field() -> None:
    bad = {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"name": "p"},
        "spce": {},
    }
    with pytest.raises(InputError, match="spce"):
        apply_change(STATE, Change(objects=(bad,)))
