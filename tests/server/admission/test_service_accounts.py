import pytest

from simulate.fixtures import PODS, create_pod, run_in_whole_cluster
from trimtab.client.client import Resource
from trimtab.errors import Forbidden
from trimtab.server.admission.service_accounts import TOKEN_PATH
from trimtab.simulate.member import SimulatedMember

ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")


def test_a_pod_runs_as_the_default_account_with_a_token() -> None:
    async def scenario(member: SimulatedMember) -> None:
        spec = (await create_pod(member, "web"))["spec"]
        assert spec["serviceAccountName"] == "default"
        assert [one["mountPath"] for one in spec["containers"][0]["volumeMounts"]] == [TOKEN_PATH]
        assert spec["volumes"][0]["name"].startswith("kube-api-access-")

    run_in_whole_cluster(scenario)


def test_pod_and_account_may_opt_out_of_the_token() -> None:
    async def scenario(member: SimulatedMember) -> None:
        quiet = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "quiet", "namespace": "default"}}
        await member.client.create(ACCOUNTS, {**quiet, "automountServiceAccountToken": False})
        assert "volumes" not in (await create_pod(member, "one", automountServiceAccountToken=False))["spec"]
        assert "volumes" not in (await create_pod(member, "two", serviceAccountName="quiet"))["spec"]
        both = {"serviceAccountName": "quiet", "automountServiceAccountToken": True}
        assert "volumes" in (await create_pod(member, "three", **both))["spec"]

    run_in_whole_cluster(scenario)


def test_a_pod_of_an_account_that_does_not_exist_is_forbidden() -> None:
    async def scenario(member: SimulatedMember) -> None:
        with pytest.raises(Forbidden, match='serviceaccount "ghost" not found'):
            await create_pod(member, "web", serviceAccountName="ghost")
        assert not (await member.client.list(PODS, "default")).items

    run_in_whole_cluster(scenario)
