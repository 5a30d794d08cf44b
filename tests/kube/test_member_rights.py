"""With the default role of `trimtab join` a real member takes applications; other kinds are refused by name until allowed."""

import json
import subprocess
from collections.abc import Iterator

import pytest
from click.testing import CliRunner
from kube.fleet import RealFleet, all_ready, wait_until
from kube.rig import kubectl

from trimtab.cli.commands.doctor import command as doctor
from trimtab.cli.commands.join import command as join
from trimtab.client.client import Resource

BINDINGS = Resource("work.karmada.io", "v1alpha2", "clusterresourcebindings", "ClusterResourceBinding", False)
CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
MEMBER, NAME = "member1", "urgent"
ACCOUNT = f"system:serviceaccount:karmada-cluster:karmada-{MEMBER}"
TEMPLATE = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": NAME}, "value": 7}
POLICY = {
    "apiVersion": "policy.karmada.io/v1alpha1",
    "kind": "ClusterPropagationPolicy",
    "metadata": {"name": NAME},
    "spec": {
        "resourceSelectors": [{"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "name": NAME}],
        "placement": {"clusterAffinity": {"clusterNames": [MEMBER]}},
    },
}
QUESTIONS = (
    "create pods --subresource=exec --all-namespaces",
    "get nodes --subresource=proxy",
    "create serviceaccounts --subresource=token -n kube-system",
    "escalate clusterroles.rbac.authorization.k8s.io",
    "create clusterrolebindings.rbac.authorization.k8s.io",
    "impersonate users",
)


def apply_rights(fleet: RealFleet, *options: str) -> None:
    """Give the control plane other rights in the member, as the documentation says."""
    printed = CliRunner().invoke(join, [MEMBER, "--print", "--no-proxy", *options], catch_exceptions=False)
    kubectl(fleet.real_members[MEMBER].plane, "apply", "-f", "-", given=printed.output)


@pytest.fixture
def default_rights(fleet: RealFleet) -> Iterator[None]:
    apply_rights(fleet)
    yield
    apply_rights(fleet)


async def refusal(fleet: RealFleet) -> str:
    for binding in (await fleet.client.list(BINDINGS)).items:
        for item in (binding.get("status") or {}).get("aggregatedStatus") or ():
            if binding["spec"]["resource"]["name"] == NAME and not item.get("applied"):
                return str(item.get("appliedMessage") or "")
    return ""


async def exists_in_member(fleet: RealFleet) -> bool:
    return any(raw["metadata"]["name"] == NAME for raw in (await fleet.members[MEMBER].list(CLASSES)).items)


@pytest.mark.usefixtures("default_rights")
def test_kind_that_the_role_does_not_name_is_refused_until_it_is_allowed(fleet: RealFleet) -> None:
    async def is_refused() -> bool:
        return bool(await refusal(fleet))

    with fleet.controllers("rights", "--status-seconds=2"):
        fleet.loop.run(wait_until(lambda: all_ready(fleet)))
        for obj in (TEMPLATE, POLICY):
            kubectl(fleet.host, "apply", "-f", "-", given=json.dumps(obj))
        fleet.loop.run(wait_until(is_refused))
        message = fleet.loop.run(refusal(fleet))
        assert f'is forbidden: User "{ACCOUNT}" cannot' in message, message
        found = CliRunner().invoke(doctor, ["--kubeconfig", str(fleet.host.kubeconfig)])
        assert "not applied: PriorityClass/urgent in member1" in found.output, found.output
        assert "trimtab join member1 --kinds default,PLURAL.GROUP --print" in found.output
        apply_rights(fleet, "--kinds", "default,priorityclasses.scheduling.k8s.io")
        fleet.loop.run(wait_until(lambda: exists_in_member(fleet)))

        async def is_gone() -> bool:
            return not await exists_in_member(fleet)

        kubectl(fleet.host, "delete", "priorityclass", NAME)
        fleet.loop.run(wait_until(is_gone))
        kubectl(fleet.host, "delete", "clusterpropagationpolicy", NAME)


@pytest.mark.usefixtures("default_rights")
def test_real_member_refuses_what_gives_more_rights(fleet: RealFleet) -> None:
    plane = fleet.real_members[MEMBER].plane
    for question in QUESTIONS:
        command = [*plane.kubectl, "auth", "can-i", *question.split(), "--as", ACCOUNT]
        asked = subprocess.run(command, capture_output=True, text=True, check=False)
        assert asked.stdout.strip() == "no", question
