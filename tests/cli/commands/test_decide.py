"""`trimtab decide`: decisions from files, in tables and as JSON."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from trimtab.cli.commands.decide import command
from trimtab.errors import InputError

POLICY = "policy.karmada.io/v1alpha1"
OCM = "cluster.open-cluster-management.io"


def cluster(name: str, *, tier: str = "gold", cpu: str = "8", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "cluster.karmada.io/v1alpha1",
        "kind": "Cluster",
        "metadata": {"name": name, "labels": {"tier": tier}},
        "spec": {"syncMode": "Push", **spec},
        "status": {
            "apiEnablements": [
                {"groupVersion": "apps/v1", "resources": [{"kind": "Deployment", "name": "deployments"}]},
                {"groupVersion": "v1", "resources": [{"kind": "ConfigMap", "name": "configmaps"}]},
            ],
            "resourceSummary": {"allocatable": {"cpu": cpu, "memory": "32Gi", "pods": "110"}},
        },
    }


def deployment(replicas: int = 6, **metadata: Any) -> dict[str, Any]:
    container = {"name": "web", "image": "nginx", "resources": {"requests": {"cpu": "500m"}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop", **metadata},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}},
        },
    }


def policy(kind: str = "Deployment", api_version: str = "apps/v1", **placement: Any) -> dict[str, Any]:
    return {
        "apiVersion": POLICY,
        "kind": "PropagationPolicy",
        "metadata": {"name": "gold", "namespace": "shop"},
        "spec": {"resourceSelectors": [{"apiVersion": api_version, "kind": kind}], "placement": placement},
    }


BY_CAPACITY = {
    "replicaSchedulingType": "Divided",
    "replicaDivisionPreference": "Weighted",
    "weightPreference": {"dynamicWeight": "AvailableReplicas"},
}


class DecideRun:
    """Output and exit code of the command."""

    def __init__(self, folder: Path, *objects: Any, options: tuple[str, ...] = ()) -> None:
        file = folder / "given.yaml"
        file.write_text(yaml.safe_dump_all(objects))
        result = CliRunner().invoke(command, ["-f", str(file), *options], standalone_mode=False)
        if result.exception is not None:
            raise result.exception
        self.text, self.code = result.stdout, result.return_value

    @property
    def decisions(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.text)["decisions"]
        return found


def decided(folder: Path, *objects: Any, options: tuple[str, ...] = ()) -> dict[str, Any]:
    (only,) = DecideRun(folder, *objects, options=("-o", "json", *options)).decisions
    return only


def shares(decision: dict[str, Any]) -> dict[str, int]:
    return {one["name"]: one.get("replicas", 0) for one in decision["targets"] if one["outcome"] == "Selected"}


def target(decision: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in decision["targets"] if one["name"] == name)
    return found


def test_workload_is_divided_by_capacity_and_rejected_cluster_has_a_reason(tmp_path: Path) -> None:
    tainted = cluster("m3", taints=[{"key": "maintenance", "effect": "NoSchedule"}])
    run = DecideRun(
        tmp_path,
        cluster("m1"),
        cluster("m2", cpu="4"),
        tainted,
        deployment(),
        policy(replicaScheduling=BY_CAPACITY),
    )
    assert run.code == 0
    assert run.text.splitlines() == [
        "Deployment shop/web (PropagationPolicy shop/gold): placed. 6 replicas in 2 clusters",
        "CLUSTER   REPLICAS   REASON",
        "m1        4          fits 16 replicas",
        "m2        2          fits 8 replicas",
        "m3        0          TaintToleration: cluster(s) had untolerated taint {maintenance:NoSchedule}",
    ]


def test_wide_output_shows_scores_strategy_and_validity(tmp_path: Path) -> None:
    run = DecideRun(
        tmp_path, cluster("m1"), deployment(), policy(replicaScheduling=BY_CAPACITY), options=("-o", "wide")
    )
    assert "ClusterLocality=0" in run.text
    assert "Strategy: DynamicWeight, Steady; divided by the available capacity of the clusters" in run.text
    assert run.text.splitlines()[-1] == "Valid until: the input changes"


def test_output_of_names_has_a_line_per_workload(tmp_path: Path) -> None:
    run = DecideRun(
        tmp_path, cluster("m1"), deployment(), policy(replicaScheduling=BY_CAPACITY), options=("-o", "name")
    )
    assert run.text.splitlines() == ["Deployment/shop/web"]


def test_workload_that_does_not_fit_exits_with_3_and_a_reason(tmp_path: Path) -> None:
    run = DecideRun(tmp_path, cluster("m1", cpu="1"), deployment(), policy(replicaScheduling=BY_CAPACITY))
    assert run.code == 3
    assert "NOT PLACED" in run.text
    assert "fits 2 replicas" in run.text


def test_workload_without_a_policy_is_not_placed(tmp_path: Path) -> None:
    run = DecideRun(tmp_path, cluster("m1"), deployment(), policy(kind="ConfigMap", api_version="v1"))
    assert run.code == 3
    assert run.text.strip() == "Deployment shop/web: NOT PLACED. no policy selects it"


def test_binding_in_the_files_is_the_current_placement(tmp_path: Path) -> None:
    bound = {
        "apiVersion": "work.karmada.io/v1alpha2",
        "kind": "ResourceBinding",
        "metadata": {"name": "web-deployment", "namespace": "shop"},
        "spec": {
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web"},
            "replicas": 6,
            "clusters": [{"name": "m2", "replicas": 6}],
        },
    }
    together = (cluster("m1"), cluster("m2"), bound, policy(replicaScheduling=BY_CAPACITY))
    more = decided(tmp_path, *together, deployment(7))
    assert shares(more) == {"m1": 1, "m2": 6}
    assert target(more, "m2")["before"] == 6


def test_affinity_groups_are_listed_in_order_of_attempts(tmp_path: Path) -> None:
    groups = [
        {"affinityName": "own", "labelSelector": {"matchLabels": {"tier": "own"}}},
        {"affinityName": "any", "labelSelector": {"matchLabels": {"tier": "gold"}}},
    ]
    decision = decided(tmp_path, cluster("m1"), deployment(), policy(clusterAffinities=groups))
    assert [group["name"] for group in decision["groups"]] == ["own", "any"]
    assert decision["groups"][0]["message"].startswith("0/1 clusters are available")
    text = DecideRun(tmp_path, cluster("m1"), deployment(), policy(clusterAffinities=groups)).text
    assert "Affinity group any: selected." in text


def test_scores_rank_clusters_until_they_expire(tmp_path: Path) -> None:
    score = {
        "apiVersion": f"{OCM}/v1alpha1",
        "kind": "AddOnPlacementScore",
        "metadata": {"name": "carbon", "namespace": "m2"},
        "status": {"validUntil": "2026-03-01T13:00:00Z", "scores": [{"name": "green", "value": 70}]},
    }
    coordinate = {"type": "AddOn", "addOn": {"resourceName": "carbon", "scoreName": "green"}}
    placement: dict[str, Any] = {
        "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}],
        "prioritizerPolicy": {"mode": "Exact", "configurations": [{"scoreCoordinate": coordinate, "weight": 1}]},
    }
    objects = (cluster("m1"), cluster("m2"), score, deployment(), policy(**placement))
    fresh = decided(tmp_path, *objects, options=("--at", "2026-03-01T12:00:00Z"))
    assert (list(shares(fresh)), fresh["validUntil"]) == (["m2"], "2026-03-01T13:00:00Z")
    stale = decided(tmp_path, *objects, options=("--at", "2026-03-01T14:00:00Z"))
    assert list(shares(stale)) == ["m1"]


def test_interpreter_scripts_count_replicas_of_custom_kinds(tmp_path: Path) -> None:
    script = "function GetReplicas(obj) return obj.spec.size, nil end"
    customization = {
        "apiVersion": "config.karmada.io/v1alpha1",
        "kind": "ResourceInterpreterCustomization",
        "metadata": {"name": "shops"},
        "spec": {
            "target": {"apiVersion": "example.io/v1", "kind": "Shop"},
            "customizations": {"replicaResource": {"luaScript": script}},
        },
    }
    shop = {
        "apiVersion": "example.io/v1",
        "kind": "Shop",
        "metadata": {"name": "a", "namespace": "shop"},
        "spec": {"size": 4},
    }
    member = cluster("m1")
    member["status"]["apiEnablements"].append(
        {"groupVersion": "example.io/v1", "resources": [{"kind": "Shop", "name": "shops"}]}
    )
    decision = decided(tmp_path, member, customization, shop, policy(kind="Shop", api_version="example.io/v1"))
    assert shares(decision) == {"m1": 4}


def managed(name: str, **labels: str) -> dict[str, Any]:
    return {
        "apiVersion": f"{OCM}/v1",
        "kind": "ManagedCluster",
        "metadata": {"name": name, "labels": {f"{OCM}/clusterset": "prod", **labels}},
        "spec": {"hubAcceptsClient": True},
    }


SET = {
    "apiVersion": f"{OCM}/v1beta2",
    "kind": "ManagedClusterSet",
    "metadata": {"name": "prod"},
    "spec": {"clusterSelector": {"selectorType": "ExclusiveClusterSetLabel"}},
}
SET_BINDING = {
    "apiVersion": f"{OCM}/v1beta2",
    "kind": "ManagedClusterSetBinding",
    "metadata": {"name": "prod", "namespace": "shop"},
    "spec": {"clusterSet": "prod"},
}


def placement(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"{OCM}/v1beta1",
        "kind": "Placement",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": spec,
    }


def test_placement_gets_clusters_of_its_sets(tmp_path: Path) -> None:
    wanted = placement(
        numberOfClusters=1,
        predicates=[{"requiredClusterSelector": {"labelSelector": {"matchLabels": {"cloud": "aws"}}}}],
    )
    decision = decided(tmp_path, SET, SET_BINDING, managed("a", cloud="aws"), managed("b", cloud="ovh"), wanted)
    assert decision["placed"] is True
    assert target(decision, "a")["outcome"] == "Selected"
    assert target(decision, "b")["plugin"] == "Predicate"


def test_placement_without_a_bound_set_is_not_placed(tmp_path: Path) -> None:
    run = DecideRun(tmp_path, SET, managed("a"), placement())
    assert run.code == 3
    assert "No valid ManagedClusterSetBindings found in placement namespace" in run.text


def test_policy_follows_the_placement_that_it_names(tmp_path: Path) -> None:
    run = DecideRun(
        tmp_path,
        *(SET, SET_BINDING, managed("m1"), managed("m2", cloud="aws"), cluster("m1"), cluster("m2")),
        placement(predicates=[{"requiredClusterSelector": {"labelSelector": {"matchLabels": {"cloud": "aws"}}}}]),
        deployment(),
        policy(placementRef={"name": "web"}),
        options=("-o", "json"),
    )
    workload = next(one for one in run.decisions if one["api"] == "karmada")
    assert shares(workload) == {"m2": 6}


def node(name: str, cpu: str = "2") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"allocatable": {"cpu": cpu, "memory": "4Gi", "pods": "110"}},
    }


def pod(name: str, cpu: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "nginx", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"containers": [container], **spec},
    }


def test_pods_without_a_node_are_placed_in_order(tmp_path: Path) -> None:
    running = pod("old", "1500m", nodeName="n1")
    run = DecideRun(
        tmp_path, node("n1"), node("n2"), running, pod("a", "1"), pod("b", "1"), pod("c", "1"), options=("-o", "json")
    )
    assert [(one["subject"], one["placed"]) for one in run.decisions] == [
        ("Pod shop/a", True),
        ("Pod shop/b", True),
        ("Pod shop/c", False),
    ]
    assert run.code == 3
    assert target(run.decisions[0], "n1")["reason"].startswith("Insufficient cpu")


def test_pod_with_priority_shows_which_pods_it_would_preempt(tmp_path: Path) -> None:
    important = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "gold"},
        "value": 100,
    }
    running = pod("old", "1500m", nodeName="n1", priority=0)
    run = DecideRun(tmp_path, node("n1"), important, running, pod("new", "2", priorityClassName="gold"))
    assert run.code == 3
    assert "On n1 it would preempt shop/old. (old: it has no controller and is not replaced)" in run.text


# wrong input


@pytest.mark.parametrize(
    ("objects", "message"),
    [
        ([cluster("m1"), deployment(), policy(clusterAffinty={})], 'unknown field "spec.placement.clusterAffinty"'),
        (
            [cluster("m1"), policy(replicaScheduling={"replicaSchedulingType": "Halved"})],
            'shop/gold: spec.placement.replicaScheduling.replicaSchedulingType: Unsupported value: "Halved"',
        ),
        ([policy(), deployment()], "kind Cluster"),
        ([placement(), SET], "kind ManagedCluster"),
        ([cluster("m1"), cluster("m1"), policy()], "document 2: Cluster m1 is already in"),
        ([cluster("m1")], "there is nothing to decide: the files contain Cluster"),
        ([{"apiVersion": POLICY, "kind": "PropagationPolice", "metadata": {"name": "x"}}], "no kind PropagationPolice"),
        ([{"kind": "Pod", "metadata": {"name": "x"}}], "document 1: apiVersion is missing"),
        ([cluster("m1"), deployment() | {"spec": {"replicas": "many"}}, policy()], "document 2: Deployment shop/web"),
        ([node("n1"), pod("p", "1", priorityClassName="gold")], "has a PriorityClass gold"),
        (
            [cluster("m1", syncMode="Shove"), policy()],
            "document 1: Cluster m1: spec.syncMode",
        ),
    ],
)
def test_wrong_input_is_reported_with_document_and_field(tmp_path: Path, objects: list[Any], message: str) -> None:
    with pytest.raises(InputError) as fault:
        DecideRun(tmp_path, *objects)
    assert message in str(fault.value)
    assert "given.yaml" in str(fault.value) or "the files" in str(fault.value)


def test_unreadable_file_is_named(tmp_path: Path) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text("a: [1,\n")
    for file, message in ((broken, "document 1: not YAML"), (tmp_path / "absent.yaml", "cannot read")):
        result = CliRunner().invoke(command, ["-f", str(file)], standalone_mode=False)
        assert isinstance(result.exception, InputError)
        assert message in str(result.exception)
        assert file.name in str(result.exception)


def test_invalid_time_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--at: expected a time"):
        DecideRun(tmp_path, cluster("m1"), deployment(), policy(), options=("--at", "noon"))
