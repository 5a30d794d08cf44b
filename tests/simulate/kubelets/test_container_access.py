"""What clients of the API do with simulated containers, before and after kubelets run them."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from trimtab.api.value import Raw
from trimtab.clock import run_virtually
from trimtab.errors import BadRequest
from trimtab.server.admission.dynamic.service_calls import ServerRequest
from trimtab.simulate.containers.connections import Listener
from trimtab.simulate.kubelets.container_access import ContainerAccess

POD = {"metadata": {"namespace": "default", "name": "web", "uid": "u"}, "spec": {"containers": [{"name": "main"}]}}


def test_before_kubelets_are_attached_no_container_runs() -> None:
    async def scenario() -> None:
        access = ContainerAccess()
        assert access.read_log(POD, "main", previous=False) == []
        assert [lines async for lines in access.follow_log(POD, "main")] == []
        assert access.respond(POD, ServerRequest("/healthz", port=80)) is None
        access.send_input(POD, "main", b"ignored")
        with pytest.raises(BadRequest, match="is not running"):
            await access.run_command(POD, "main", ["ls"], "", lambda _: None)

        async def receive() -> bytes | None:
            return None

        with pytest.raises(ConnectionError, match="connection refused"):
            await access.connect(POD, 80, receive, lambda _: None)

    asyncio.run(scenario())


class RunningContainer:
    """A container that listens on port 80 and accepts nothing."""

    def __init__(self) -> None:
        self.running_since: float | None = 1.0
        self.listener = Listener()
        self.launch = SimpleNamespace(server=None, listener=self.listener, listening_port=80)


class OnePod(ContainerAccess):
    """Access to one container, which the test stops."""

    def __init__(self, container: RunningContainer) -> None:
        super().__init__()
        self.container, self.exists = container, True

    def _find_pod(self, pod: Raw) -> Any:
        return SimpleNamespace(containers=[self.container]) if self.exists else None


@pytest.mark.parametrize("how", ["container stops", "container starts again", "pod is deleted", "client leaves"])
def test_connection_ends_with_its_container_and_with_its_client(how: str) -> None:
    async def scenario() -> None:
        container = RunningContainer()
        access = OnePod(container)

        async def receive() -> bytes | None:
            await asyncio.sleep(3600)
            return None

        carrying = asyncio.ensure_future(access.connect(POD, 80, receive, lambda _: None))
        await asyncio.sleep(5)
        assert (carrying.done(), len(container.listener.waiting)) == (False, 1)
        if how == "pod is deleted":
            access.exists = False
        elif how == "client leaves":
            carrying.cancel()
        else:
            container.running_since = None if how == "container stops" else 5.0
        await asyncio.sleep(1)
        assert carrying.done()
        assert not container.listener.waiting, "a program that accepts later finds no connection that has ended"

    run_virtually(scenario())
