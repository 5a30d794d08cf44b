"""The client of commands: it is closed, and connection errors are reported in one message."""

from pathlib import Path

import pytest

from trimtab.cli.support.client import with_client
from trimtab.client.client import Client
from trimtab.errors import InputError

CONFIG = """
clusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}]
contexts: [{name: a, context: {cluster: a}}]
current-context: a
"""


@pytest.fixture
def kubeconfig(tmp_path: Path) -> str:
    (tmp_path / "config").write_text(CONFIG)
    return str(tmp_path / "config")


def test_result_of_the_work_is_returned_and_the_client_closed(kubeconfig: str, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[Client] = []

    async def close(self: Client) -> None:
        closed.append(self)

    monkeypatch.setattr("trimtab.client.kube.KubeClient.close", close)

    async def work(client: Client) -> Client:
        return client

    assert closed == [with_client(kubeconfig, "", work)]


def test_result_of_the_work_is_not_formatted(kubeconfig: str) -> None:
    """asyncio.run formats the result of its task when it restores the handler of SIGINT; a fleet takes a second."""

    class Fleet:
        def __repr__(self) -> str:
            raise AssertionError("formatted")

    async def work(client: Client) -> Fleet:
        return Fleet()

    assert isinstance(with_client(kubeconfig, "", work), Fleet)


def test_connection_error_is_reported_as_input_error(kubeconfig: str) -> None:
    async def work(client: Client) -> None:
        raise TimeoutError

    with pytest.raises(InputError, match=r"cannot reach the API server https://.*: TimeoutError; is it running"):
        with_client(kubeconfig, "", work)
