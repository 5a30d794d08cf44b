import asyncio
import base64

from simulate.fixtures import run_in_whole_cluster
from trimtab.client.client import Resource
from trimtab.simulate.member import SimulatedMember

SECRETS = Resource("", "v1", "secrets", "Secret")
ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")


def test_a_token_secret_gets_a_valid_token_and_goes_with_its_account() -> None:
    async def scenario(member: SimulatedMember) -> None:
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot", "namespace": "default"}}
        await member.client.create(ACCOUNTS, account)
        annotations = {"kubernetes.io/service-account.name": "robot"}
        metadata = {"name": "robot-token", "namespace": "default", "annotations": annotations}
        secret = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token"}
        await member.client.create(SECRETS, {**secret, "metadata": metadata})
        await asyncio.sleep(2)
        data = (await member.client.get(SECRETS, "default", "robot-token"))["data"]
        token = base64.b64decode(data["token"]).decode()
        verified = member.server.tokens.verify(token, member.server.resource_store.clock.now())
        assert not isinstance(verified, str)
        assert verified.user.name == "system:serviceaccount:default:robot"
        await member.client.delete(ACCOUNTS, "default", "robot")
        await asyncio.sleep(2)
        assert not (await member.client.list(SECRETS, "default")).items

    run_in_whole_cluster(scenario)
