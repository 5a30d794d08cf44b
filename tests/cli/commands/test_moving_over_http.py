"""The commands about moving as a user meets them: processes that talk to a running `trimtab up`."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from cli.commands.test_up import CLUSTERS, apply_example, eventually, ready, talk, up
from trimtab.client.client import Resource

BINDINGS = Resource("work.karmada.io", "v1alpha2", "resourcebindings", "ResourceBinding")
REBALANCERS = Resource("apps.karmada.io", "v1alpha1", "workloadrebalancers", "WorkloadRebalancer", namespaced=False)


class Said(NamedTuple):
    code: int
    out: str
    err: str


class Desk:
    """Somebody at a terminal."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig

    def __call__(self, *words: str, kubeconfig: str = "") -> Said:
        arguments = [*words, "--kubeconfig", kubeconfig or str(self.kubeconfig)]
        code = "from trimtab.cli.main import main; main()"
        ran = subprocess.run(
            [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=120, check=False
        )
        return Said(ran.returncode, ran.stdout, ran.stderr)

    def where(self) -> dict[str, int]:
        binding = talk(self.kubeconfig, lambda client: client.get(BINDINGS, "default", "web-deployment"))
        return {target["name"]: target["replicas"] for target in binding["spec"]["clusters"]}

    def jobs(self) -> int:
        return len(talk(self.kubeconfig, lambda client: client.list(REBALANCERS)).items)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with up(tmp_path_factory.mktemp("house")) as config:
        talk(config, apply_example)
        eventually(lambda: ready(config) == 6, 60)
        yield Desk(config)


def test_a_cluster_is_emptied_opened_and_filled_again_and_the_log_tells_of_it(desk: Desk) -> None:
    assert desk("history") == (0, "Nothing has moved.\n", "")
    drained = desk("drain-cluster", "member1", "--timeout", "90")
    assert (drained.code, drained.err) == (0, ""), drained
    assert "deployment/default/web has left (1 of 1 workloads)" in drained.out
    assert drained.out.endswith("cluster/member1 drained\n")
    assert desk.where() == {"member2": 3, "member3": 3}
    assert ready(desk.kubeconfig) == 6
    told = desk("explain", "deploy/web", "--now")
    assert told.code == 0
    assert "runs in member2 (3), member3 (3)" in told.out
    assert "member1" in told.out, "it says why not there"
    assert desk("uncordon-cluster", "member1").out == "cluster/member1 opened\n"
    cluster = talk(desk.kubeconfig, lambda client: client.get(CLUSTERS, "", "member1"))
    assert not cluster["spec"].get("taints")
    planned = desk("rebalance", "deploy/web", "--dry-run")
    assert (planned.code, desk.jobs()) == (0, 0)
    assert "member2:3 member3:3" in planned.out
    assert "replacement first" in planned.out
    assert desk.where() == {"member2": 3, "member3": 3}
    moved = desk("rebalance", "deploy/web", "--wait", "--timeout", "90")
    assert moved.code == 0, moved
    assert "Done      Deployment/default/web  member2:3 member3:3 -> member1:" in moved.out
    assert len(desk.where()) == 3
    for name in ("web", "web-deployment", "deploy/web", "Deployment/web", "rb/web-deployment"):
        heading, *rows = desk("history", name).out.splitlines()
        assert heading.split()[:5] == ["STARTED", "WORKLOAD", "CAUSE", "FROM", "TO"]
        assert rows[0].split()[3:5] == ["Drain", "member1"], name
        assert {row.split()[3] for row in rows} == {"Drain", "Rebalance"}
        assert all(" Done " in row for row in rows)


def test_a_selector_rebalances_what_it_selects(desk: Desk) -> None:
    planned = desk("rebalance", "-l", "!legacy", "--dry-run")
    assert planned.code == 0
    assert "Deployment/default/web" in planned.out
    assert "Deployment/default/web" not in desk("rebalance", "-l", "team=blue", "--dry-run").out


WRONG = {
    "a cluster that is not there": (
        ("drain-cluster", "nobody"),
        "no cluster is called 'nobody'; there are member1, member2, member3",
    ),
    "one to open": (("uncordon-cluster", "nobody"), "no cluster is called 'nobody'; there are member1"),
    "one whose drain is to end": (("drain-cluster", "nobody", "--abort"), "no cluster is called 'nobody'"),
    "a word that names no workload": (("rebalance", "web"), "'web' names no workload; write for example deploy/web"),
    "a kind that is not served": (("rebalance", "foo/web"), "no kind called 'foo'; write for example deploy/web"),
    "a selector that cannot be read": (("rebalance", "-l", "team in (x"), "--selector 'team in (x': unable to parse"),
    "nothing at all": (("rebalance",), "name workloads, as in deploy/web, or give a --selector"),
    "both": (("rebalance", "deploy/web", "-l", "a=b"), "--selector"),
    "a workload that nobody propagates": (
        ("explain", "deploy/ghost"),
        "deploy/ghost in namespace default is not propagated",
    ),
    "a name without a kind": (("explain", "web"), "'web': write KIND/NAME, such as deploy/web"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_told_with_what_to_do_and_nothing_is_done(desk: Desk, case: str) -> None:
    words, message = WRONG[case]
    before = desk.jobs()
    said = desk(*words)
    assert (said.code, said.out) == (1, "")
    assert said.err.startswith("trimtab: ")
    assert message in said.err
    assert "Traceback" not in said.err
    assert desk.jobs() == before


def test_a_rebalance_of_a_workload_that_is_not_there_fails_and_says_why(desk: Desk) -> None:
    said = desk("rebalance", "deploy/ghost", "--wait", "--timeout", "60")
    assert said.code == 1
    assert "Failed    Deployment/default/ghost  no binding of this workload was found" in said.out


def test_what_never_moved_has_no_history(desk: Desk) -> None:
    assert desk("history", "deploy/ghost") == (0, "Nothing called deploy/ghost has moved.\n", "")


def test_a_kubeconfig_that_is_not_there_is_named(desk: Desk) -> None:
    said = desk("history", kubeconfig="/nowhere/kubeconfig")
    assert said.code == 1
    assert "/nowhere/kubeconfig does not exist; name one with --kubeconfig" in said.err
