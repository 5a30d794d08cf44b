"""What clients of the API do with simulated containers, before and after kubelets run them."""

import asyncio

import pytest

from trimtab.errors import BadRequest
from trimtab.simulate.kubelets.container_access import ContainerAccess

POD = {"metadata": {"namespace": "default", "name": "web", "uid": "u"}, "spec": {"containers": [{"name": "main"}]}}


def test_before_kubelets_are_attached_no_container_runs() -> None:
    async def scenario() -> None:
        access = ContainerAccess()
        assert access.read_log(POD, "main", previous=False) == []
        assert [lines async for lines in access.follow_log(POD, "main")] == []
        assert access.respond(POD, "80", "/healthz") is None
        access.send_input(POD, "main", b"ignored")
        with pytest.raises(BadRequest, match="is not running"):
            await access.run_command(POD, "main", ["ls"], "", lambda _: None)

        async def receive() -> bytes | None:
            return None

        with pytest.raises(ConnectionError, match="connection refused"):
            await access.connect(POD, 80, receive, lambda _: None)

    asyncio.run(scenario())
