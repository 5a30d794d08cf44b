"""Every kind of kubeconfig credentials authenticates with a real kube-apiserver as the right user."""

import asyncio
import base64
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kube.rig import RealControlPlane

from trimtab.client.client import Resource
from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import load
from trimtab.clock import WallClock
from trimtab.errors import Unauthorized
from trimtab.runtime.leader_election import LEASES, LeaderElector

REVIEWS = Resource("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False)
User = dict[str, Any]


def base64_text(content: bytes) -> str:
    return base64.b64encode(content).decode()


def by_certificate(host: RealControlPlane, directory: Path) -> User:
    certificate, key = host.issue_client_certificate("by-certificate", "system:masters")
    return {"client-certificate-data": base64_text(certificate), "client-key-data": base64_text(key)}


def by_files(host: RealControlPlane, directory: Path) -> User:
    certificate, key = host.issue_client_certificate("by-files", "system:masters")
    (directory / "user.crt").write_bytes(certificate)
    (directory / "user.key").write_bytes(key)
    return {"client-certificate": "user.crt", "client-key": "user.key"}


def by_token(host: RealControlPlane, directory: Path) -> User:
    return {"token": host.token}


def by_token_file(host: RealControlPlane, directory: Path) -> User:
    (directory / "token").write_text(f"{host.token}\n")
    return {"tokenFile": "token"}


def by_plugin(host: RealControlPlane, directory: Path) -> User:
    return {"exec": exec_plugin(directory, {"token": host.token})}


def by_plugin_with_certificate(host: RealControlPlane, directory: Path) -> User:
    certificate, key = host.issue_client_certificate("by-plugin", "system:masters")
    return {
        "exec": exec_plugin(directory, {"clientCertificateData": certificate.decode(), "clientKeyData": key.decode()})
    }


def exec_plugin(directory: Path, status: dict[str, str]) -> dict[str, Any]:
    """An exec plugin that returns this status and counts its calls."""
    script = directory / "login.py"
    response = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
    count_call = (
        f"import pathlib\nwith pathlib.Path({str(directory / 'asked')!r}).open('a') as log: log.write('asked\\n')\n"
    )
    script.write_text(f"{count_call}print({json.dumps(response)!r})\n")
    return {"apiVersion": "client.authentication.k8s.io/v1", "command": sys.executable, "args": [str(script)]}


def kubeconfig(host: RealControlPlane, directory: Path, user: User) -> Path:
    content = json.loads(host.kubeconfig.read_text())
    content["users"][0]["user"] = user
    path = directory / "kubeconfig"
    path.write_text(json.dumps(content))
    return path


async def name_of_caller(path: Path) -> str:
    client = KubeClient(load(path))
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview", "metadata": {}}
    try:
        responses = [await client.create(REVIEWS, review) for _ in range(2)]
    finally:
        await client.close()
    (name,) = {response["status"]["userInfo"]["username"] for response in responses}
    return str(name)


@pytest.mark.parametrize(
    ("how", "name"),
    [
        (by_certificate, "by-certificate"),
        (by_files, "by-files"),
        (by_token, "admin"),
        (by_token_file, "admin"),
        (by_plugin, "admin"),
        (by_plugin_with_certificate, "by-plugin"),
    ],
)
def test_credentials_authenticate_the_user(
    host: RealControlPlane, tmp_path: Path, how: Callable[[RealControlPlane, Path], User], name: str
) -> None:
    assert asyncio.run(name_of_caller(kubeconfig(host, tmp_path, how(host, tmp_path)))) == name


def test_exec_plugin_is_called_once_for_credentials_without_expiry(host: RealControlPlane, tmp_path: Path) -> None:
    asyncio.run(name_of_caller(kubeconfig(host, tmp_path, by_plugin(host, tmp_path))))
    assert (tmp_path / "asked").read_text().splitlines() == ["asked"]


def test_wrong_token_is_refused(host: RealControlPlane, tmp_path: Path) -> None:
    with pytest.raises(Unauthorized):
        asyncio.run(name_of_caller(kubeconfig(host, tmp_path, {"token": "wrong"})))


def test_candidate_becomes_leader_once_its_plugin_returns_credentials(host: RealControlPlane, tmp_path: Path) -> None:
    path = kubeconfig(host, tmp_path, by_plugin(host, tmp_path))
    plugin_source = (tmp_path / "login.py").read_text()
    (tmp_path / "login.py").write_text("import sys; sys.exit('log in first')")

    async def story() -> str:
        client, leads = KubeClient(load(path)), asyncio.Event()

        async def lead() -> None:
            leads.set()

        election = LeaderElector(client, WallClock(), "patient", name="patience", retry_seconds=0.1)
        candidate = asyncio.ensure_future(election.run_as_leader(lead))
        given_up, _ = await asyncio.wait({candidate}, timeout=1)
        assert not given_up
        (tmp_path / "login.py").write_text(plugin_source)
        await candidate
        lease = await client.get(LEASES, "kube-system", "patience")
        await client.close()
        return str(lease["spec"]["leaseTransitions"]) if leads.is_set() else "never led"

    assert asyncio.run(story()) == "0"
