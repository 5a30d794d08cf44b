"""`trimtab thaw` ends a freeze, and keeps the other settings of the DisruptionPolicy."""

import asyncio

from click.testing import CliRunner

from trimtab.api.kinds.disruption import DisruptionPolicy
from trimtab.cli.main import trimtab
from trimtab.client.freeze import POLICIES, find_disruption_policy
from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import load


def call(kubeconfig: str, *words: str) -> str:
    result = CliRunner().invoke(trimtab, [*words, "--kubeconfig", kubeconfig])
    assert result.exit_code == 0, result.output
    return result.output


def read_policy(kubeconfig: str, patch: object = None) -> DisruptionPolicy:
    async def read() -> DisruptionPolicy:
        client = KubeClient(load(kubeconfig))
        if patch is not None:
            await client.patch(POLICIES, "", "default", patch)
        policy = await find_disruption_policy(client)
        await client.close()
        assert policy is not None
        return policy

    return asyncio.run(read())


def test_freeze_and_thaw_change_nothing_else_in_the_settings(kubeconfig: str) -> None:
    assert call(kubeconfig, "thaw") == "Moves are not frozen.\n"
    assert call(kubeconfig, "freeze", "--reason", "wrong weights") == (
        "All moves are frozen. Release them with: trimtab thaw\n"
    )
    freeze = read_policy(kubeconfig, {"spec": {"approval": "Required"}}).spec.freeze
    assert freeze is not None
    assert (freeze.reason, bool(freeze.by), freeze.since is not None) == ("wrong weights", True, True)
    assert call(kubeconfig, "thaw") == "Moves may begin again.\n"
    spec = read_policy(kubeconfig).spec
    assert (spec.freeze, spec.approval) == (None, "Required")
