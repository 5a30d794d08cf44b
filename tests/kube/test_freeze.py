"""`trimtab freeze` and `trimtab thaw` on a real kube-apiserver: a bad policy takes no copy away while moves are frozen."""

from typing import Any

from click.testing import CliRunner
from kube.fleet import NAMESPACES, RealFleet, all_ready, wait_until
from kube.workloads import BINDINGS, DEPLOYMENTS, POLICIES, delete_namespace, deployment, policy

from trimtab.cli.main import trimtab
from trimtab.errors import NotFound

NAMESPACE = "frozen"


def call(fleet: RealFleet, *words: str) -> str:
    result = CliRunner().invoke(trimtab, [*words, "--kubeconfig", str(fleet.host.kubeconfig)])
    assert result.exit_code in (0, 1), result.output
    return result.output


async def roll_out(fleet: RealFleet) -> None:
    await wait_until(lambda: all_ready(fleet))
    await fleet.client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    await fleet.client.create(POLICIES, policy(NAMESPACE))
    await fleet.client.create(DEPLOYMENTS, deployment(NAMESPACE, 0))
    await wait_until(lambda: has_copies(fleet, len(fleet.members)))


async def has_copies(fleet: RealFleet, count: int) -> bool:
    found = 0
    for member in fleet.members.values():
        try:
            await member.get(DEPLOYMENTS, NAMESPACE, "web-0")
            found += 1
        except NotFound:
            continue
    return found == count


async def read_binding(fleet: RealFleet) -> dict[str, Any]:
    (binding,) = (await fleet.client.list(BINDINGS, NAMESPACE)).items
    return dict(binding)


async def restrict_policy(fleet: RealFleet) -> None:
    """Roll out a policy that keeps one cluster."""
    affinity = {"clusterNames": [min(fleet.members)]}
    await fleet.client.patch(POLICIES, NAMESPACE, "everywhere", {"spec": {"placement": {"clusterAffinity": affinity}}})


async def is_refused(fleet: RealFleet) -> bool:
    conditions = (await read_binding(fleet))["status"]["conditions"]
    return any("all moves are frozen since" in condition.get("message", "") for condition in conditions)


def test_bad_policy_takes_nothing_away_until_the_thaw(fleet: RealFleet) -> None:
    run = fleet.loop.run
    with fleet.controllers("freezer", "--status-seconds=2"):
        run(roll_out(fleet))
        call(fleet, "freeze", "--reason", "a bad policy")
        run(restrict_policy(fleet))
        run(wait_until(lambda: is_refused(fleet)))
        assert len(run(read_binding(fleet))["spec"]["clusters"]) == len(fleet.members)
        assert run(has_copies(fleet, len(fleet.members)))
        assert "(a bad policy)" in call(fleet, "doctor")
        assert call(fleet, "thaw") == "Moves may begin again.\n"
        run(wait_until(lambda: has_copies(fleet, 1)))
        run(delete_namespace(fleet, NAMESPACE))
