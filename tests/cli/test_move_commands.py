"""The commands that move workloads, each in its own process, against a running `trimtab up`."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.processes import (
    CLUSTERS,
    LIMIT,
    CommandResult,
    apply_example,
    eventually,
    ready_replicas,
    run_command,
    up,
    with_kube_client,
)
from trimtab.client.client import Resource

BINDINGS = Resource("work.karmada.io", "v1alpha2", "resourcebindings", "ResourceBinding")
REBALANCERS = Resource("apps.karmada.io", "v1alpha1", "workloadrebalancers", "WorkloadRebalancer", namespaced=False)


class Terminal:
    """Runs commands against one running `trimtab up`."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig

    def __call__(self, *words: str, kubeconfig: str = "") -> CommandResult:
        return run_command(*words, "--kubeconfig", kubeconfig or str(self.kubeconfig))

    def where(self) -> dict[str, int]:
        binding = with_kube_client(self.kubeconfig, lambda client: client.get(BINDINGS, "default", "web-deployment"))
        return {target["name"]: target["replicas"] for target in binding["spec"]["clusters"]}

    def jobs(self) -> int:
        return len(with_kube_client(self.kubeconfig, lambda client: client.list(REBALANCERS)).items)


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    with up(tmp_path_factory.mktemp("up")) as config:
        with_kube_client(config, apply_example)
        eventually(lambda: ready_replicas(config) == 6)
        yield Terminal(config)


def test_cluster_is_drained_uncordoned_and_rebalanced_with_history(terminal: Terminal) -> None:
    assert terminal("history") == (0, "There are no moves in namespace default; -A shows all namespaces.\n", "")
    drained = terminal("drain-cluster", "member1", "--timeout", str(LIMIT))
    assert (drained.code, drained.err) == (0, ""), drained
    assert "deployment/default/web moved (1 of 1 workloads)" in drained.out
    assert drained.out.endswith("cluster/member1 drained\n")
    assert terminal.where() == {"member2": 3, "member3": 3}
    assert ready_replicas(terminal.kubeconfig) == 6
    explained = terminal("explain", "deploy/web", "--now")
    assert explained.code == 0
    assert "is placed in member2 (3), member3 (3)" in explained.out
    assert "member1" in explained.out, "the rejected cluster is listed"
    assert terminal("uncordon-cluster", "member1").out == "cluster/member1 uncordoned\n"
    cluster = with_kube_client(terminal.kubeconfig, lambda client: client.get(CLUSTERS, "", "member1"))
    assert not cluster["spec"].get("taints")
    planned = terminal("rebalance", "deploy/web", "--dry-run")
    assert (planned.code, terminal.jobs()) == (2, 0)
    assert "member2:3 member3:3" in planned.out
    assert "ReplacementFirst" in planned.out
    assert terminal("rebalance", "deploy/nope", "--dry-run").code == 3
    assert terminal.where() == {"member2": 3, "member3": 3}
    moved = terminal("rebalance", "deploy/web", "--wait", "--timeout", str(LIMIT))
    assert moved.code == 0, moved
    assert "Done      Deployment/default/web  member2:3 member3:3 -> member1:" in moved.out
    assert len(terminal.where()) == 3
    for name in ("web", "web-deployment", "deploy/web", "Deployment/web", "rb/web-deployment"):
        heading, *rows = terminal("history", name).out.splitlines()
        assert heading.split()[:5] == ["STARTED", "WORKLOAD", "CAUSE", "FROM", "TO"]
        assert rows[0].split()[3:5] == ["Drain", "member1"], name
        assert {row.split()[3] for row in rows} == {"Drain", "Rebalance"}
        assert all(" Done " in row for row in rows)


def test_selector_limits_what_is_rebalanced(terminal: Terminal) -> None:
    planned = terminal("rebalance", "-l", "!legacy", "--dry-run")
    assert planned.code == 0
    assert "Deployment/default/web" in planned.out
    assert "Deployment/default/web" not in terminal("rebalance", "-l", "team=blue", "--dry-run").out


def test_plan_is_carried_out_once_and_refused_when_the_fleet_has_changed(terminal: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    planned = terminal("plan", "--taint", "member3:broken:NoSchedule", "--drain", "member3", "--out", str(file))
    assert planned.code == 2, planned
    assert "Deployment/default/web   Move" in planned.out
    applied = terminal("apply-plan", str(file))
    assert (applied.code, applied.out.splitlines()) == (
        0,
        ["cluster/member3 cordoned; its workloads move out", "cluster/member3 tainted"],
    )
    eventually(lambda: "member3" not in terminal.where())
    again = terminal("apply-plan", str(file))
    assert again.code == 3
    assert "Deployment/default/web: no longer part of the plan" in again.err
    file.write_text(file.read_text().replace("broken", "other"))
    assert "was edited" in terminal("apply-plan", str(file)).err
    assert terminal("plan", "--taint", "member3:broken-", "--out", str(file)).code == 0
    assert terminal("apply-plan", str(file)).code == 0
    assert terminal("uncordon-cluster", "member3").code == 0
    lost = terminal("plan", "--lose-cluster", "member1", "-o", "json", "--out", str(file))
    assert lost.code == 2
    assert '"loseClusters"' in lost.out
    assert "cannot be carried out" in terminal("apply-plan", str(file)).err


INVALID_INPUT = {
    "missing cluster": (
        ("drain-cluster", "nobody"),
        "there is no cluster 'nobody'; clusters: member1, member2, member3",
    ),
    "missing cluster to uncordon": (("uncordon-cluster", "nobody"), "there is no cluster 'nobody'; clusters: member1"),
    "missing cluster with a drain to abort": (("drain-cluster", "nobody", "--abort"), "there is no cluster 'nobody'"),
    "word without a kind": (("rebalance", "web"), "'web' does not name a workload; use for example deploy/web"),
    "unknown kind": (("rebalance", "foo/web"), "no kind called 'foo'; use for example deploy/web"),
    "invalid selector": (("rebalance", "-l", "team in (x"), "--selector 'team in (x': unable to parse"),
    "no workload": (("rebalance",), "give either workloads, such as deploy/web, or a --selector"),
    "workload and selector": (("rebalance", "deploy/web", "-l", "a=b"), "--selector"),
    "workload that is not propagated": (
        ("explain", "deploy/ghost"),
        "there is no Deployment ghost in namespace default",
    ),
    "workload of another namespace": (
        ("explain", "deploy/web", "-n", "kube-system"),
        "there is no Deployment web in namespace kube-system; there is one in default (-n default)",
    ),
    "missing cluster to plan for": (
        ("plan", "--lose-cluster", "nobody"),
        "there is no cluster 'nobody'; clusters: member1",
    ),
    "missing region": (("plan", "--lose-region", "mars"), "no cluster is in the region 'mars'; regions: eu, us"),
    "invalid taint": (("plan", "--taint", "x"), "'x' is not a taint; use CLUSTER:KEY[=VALUE]:EFFECT"),
    "missing file": (("plan", "-f", "nowhere.yaml"), "cannot read nowhere.yaml"),
    "missing plan": (("apply-plan", "nowhere.json"), "cannot read nowhere.json: No such file or directory"),
    "name without a kind": (("explain", "web"), "'web': expected KIND/NAME, such as deploy/web"),
}


@pytest.mark.parametrize("case", INVALID_INPUT)
def test_wrong_input_is_reported_and_changes_nothing(terminal: Terminal, case: str) -> None:
    words, message = INVALID_INPUT[case]
    before = terminal.jobs()
    result = terminal(*words)
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("trimtab: ")
    assert message in result.err
    assert "Traceback" not in result.err
    assert terminal.jobs() == before


def test_rebalance_of_missing_workload_fails_with_reason(terminal: Terminal) -> None:
    result = terminal("rebalance", "deploy/ghost", "--wait", "--timeout", str(LIMIT))
    assert result.code == 1
    assert "there is no Deployment ghost in namespace default" in result.err


def test_history_of_unmoved_workload_is_empty(terminal: Terminal) -> None:
    assert terminal("history", "deploy/ghost") == (
        0,
        "There are no moves of deploy/ghost in namespace default; -A shows all namespaces.\n",
        "",
    )
    assert terminal("history", "deploy/ghost", "-o", "name") == (0, "", "")


def test_missing_kubeconfig_is_named(terminal: Terminal) -> None:
    result = terminal("history", kubeconfig="/nowhere/kubeconfig")
    assert result.code == 1
    assert "/nowhere/kubeconfig does not exist; name one with --kubeconfig" in result.err
