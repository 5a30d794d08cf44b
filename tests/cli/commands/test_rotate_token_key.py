"""`trimtab rotate-token-key` changes the key of a running server; others verify its tokens with the public keys."""

import asyncio
import json
from pathlib import Path

from click.testing import CliRunner

from trimtab.cli.main import trimtab
from trimtab.client.client import Resource
from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import load
from trimtab.server.auth.authenticate import ISSUER
from trimtab.server.auth.token_keys import base64_decode

ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")


def test_directory_without_a_server_is_refused(tmp_path: Path) -> None:
    result = CliRunner().invoke(trimtab, ["rotate-token-key", "--data-dir", str(tmp_path)])
    assert result.exit_code == 2
    assert "is no data directory" in result.output


def test_running_server_signs_with_the_new_key_and_publishes_both(kubeconfig: str) -> None:
    directory = str(Path(kubeconfig).parent)

    async def issue_token() -> tuple[str, set[str]]:
        client = KubeClient(load(kubeconfig))
        body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"namespace": "default", "name": "builder"}}
        if not any(one["metadata"]["name"] == "builder" for one in (await client.list(ACCOUNTS, "default")).items):
            await client.create(ACCOUNTS, body)
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        path = "/api/v1/namespaces/default/serviceaccounts/builder/token"
        headers = [("content-type", "application/json")]
        answer = await client.forward("POST", path, {}, headers, json.dumps(request).encode())
        token = (await answer.json())["status"]["token"]
        discovery = json.loads((await client.fetch("/.well-known/openid-configuration")).body)
        assert discovery["issuer"] == ISSUER
        assert discovery["jwks_uri"].endswith("/openid/v1/jwks")
        keys = json.loads((await client.fetch("/openid/v1/jwks")).body)["keys"]
        await client.close()
        return json.loads(base64_decode(token.partition(".")[0]))["kid"], {key["kid"] for key in keys}

    first, published = asyncio.run(issue_token())
    assert published == {first}
    result = CliRunner().invoke(trimtab, ["rotate-token-key", "--data-dir", directory])
    assert result.exit_code == 0, result.output
    second, published = asyncio.run(issue_token())
    assert result.output == f"New tokens are signed with the key {second}.\n"
    assert published == {first, second}
