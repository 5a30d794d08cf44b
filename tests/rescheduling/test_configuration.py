"""The configuration of the rescheduler: what is in effect after each change of the ConfigMap."""

import asyncio

import pytest

from trimtab.api.value import Raw
from trimtab.client.client import Client
from trimtab.errors import InputError
from trimtab.rescheduling.configuration import CONFIG_MAPS, NAME, NAMESPACE, Configuration, read_config
from trimtab.server.apiserver import ApiServer
from trimtab.server.local import LocalClient
from trimtab.store.store import Store

VALID = "{preset: aggressive, objectives: [{name: UnderutilisedNodes}]}"


async def write(client: Client, text: str) -> None:
    body: Raw = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME, "namespace": NAMESPACE}}
    await client.patch(CONFIG_MAPS, NAMESPACE, NAME, body | {"data": {"rescheduler.yaml": text}}, type="apply")


def test_an_invalid_configuration_is_reported_once_and_leaves_the_previous_one_in_effect() -> None:
    async def scenario() -> None:
        server = ApiServer(Store())
        await server.start()
        client, reported = LocalClient(server), list[str]()
        configuration = Configuration(client, None, lambda _, message: reported.append(message))
        await configuration.load()
        assert (configuration.current, configuration.goals) == (None, "nothing is rescheduled")
        await write(client, VALID)
        await configuration.load()
        assert configuration.goals == "UnderutilisedNodes: aggressive"
        await write(client, "preset: reckless")
        for _ in range(2):
            await configuration.load()
        assert configuration.goals == "UnderutilisedNodes: aggressive"
        assert "no preset 'reckless'" in configuration.error
        assert [message.endswith("the previous one stays in effect") for message in reported] == [True]
        with pytest.raises(InputError, match="reckless"):
            await Configuration(client, None, lambda *_: None).load()
        fixed = Configuration(client, read_config({"rescheduler.yaml": VALID}), lambda *_: None)
        await fixed.load()
        assert fixed.error == ""
        await server.stop()

    asyncio.run(scenario())
