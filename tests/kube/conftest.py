"""Starts real control planes for tests; skips the tests where the binaries are missing."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from kube.fleet import RealFleet, wait_until_served
from kube.rig import RealControlPlane, RigUnavailable, binaries_directory, kubectl

from trimtab.cli.commands.crds import command as crds
from trimtab.client import connection_pool
from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import load

PATIENT_SECONDS = 300.0
FIRST_FILES = (
    "test_production",
    "test_crd_parity",
    "test_stories",
    "test_flows",
    "test_controllers",
    "test_adopt",
    "test_upgrade",
)
"""Long files start first, so that at the end no process waits for another one; one of them needs a host without controllers."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = [item for item in items if Path(__file__).parent in item.path.parents]
    if not here:
        return
    items.sort(key=lambda item: FIRST_FILES.index(item.path.stem) if item.path.stem in FIRST_FILES else 99)
    try:
        binaries_directory()
    except RigUnavailable as reason:
        for item in here:
            item.add_marker(pytest.mark.skip(reason=f"{item.name}: {reason}"))


@pytest.fixture(scope="session", autouse=True)
def patient_clients() -> Iterator[None]:
    """A busy machine may need long for a TLS handshake; no test is about that."""
    usual = connection_pool.CONNECT_SECONDS
    connection_pool.CONNECT_SECONDS = PATIENT_SECONDS
    yield
    connection_pool.CONNECT_SECONDS = usual


@pytest.fixture(scope="session")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealControlPlane]:
    with RealControlPlane("host", tmp_path_factory.mktemp("kube")) as plane:
        yield plane


@pytest.fixture(scope="session")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealFleet]:
    """One fleet for all tests; each test restores its state."""
    with RealFleet(tmp_path_factory.mktemp("fleet")) as fleet:
        yield fleet


@pytest.fixture(scope="session")
def host_with_crds(host: RealControlPlane) -> RealControlPlane:
    """A host with our CRDs, installed as documented: `trimtab crds | kubectl apply -f -`."""
    kubectl(host, "apply", "-f", "-", given=CliRunner().invoke(crds).output)
    kubectl(host, "apply", "-f", "-", given=CliRunner().invoke(crds, ["--policies"]).output)

    async def served() -> None:
        client = KubeClient(load(host.kubeconfig))
        await wait_until_served(client)
        await client.close()

    asyncio.run(served())
    return host


@pytest.fixture(scope="session")
def member(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealControlPlane]:
    with RealControlPlane("member", tmp_path_factory.mktemp("kube"), controllers=True, scheduler=True) as plane:
        yield plane
