"""`trimtab delete pod`: pods are evicted within their budgets, or deleted directly."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from click.testing import CliRunner

from simulate.fixtures import BUDGETS, DEPLOYMENTS, deployment, run_in_member, workload
from trimtab.cli.commands import delete
from trimtab.simulate.member import SimulatedMember

Work = Callable[[Any], Awaitable[bool]]


def parse(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Work:
    """The work of the command, to be run on the loop of the simulated member."""
    captured: list[Work] = []
    monkeypatch.setattr(delete, "with_client", lambda _, __, work: captured.append(work))
    CliRunner().invoke(delete.command, ["pod", *arguments])
    return captured[0]


async def pods_with_full_budget(member: SimulatedMember) -> list[str]:
    """Two pods whose budget allows no disruption."""
    await member.client.create(DEPLOYMENTS, deployment(replicas=2))
    spec = {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}}
    await member.client.create(BUDGETS, workload("PodDisruptionBudget", "web", spec, "policy/v1"))
    await asyncio.sleep(5)
    return sorted(pod.name for pod in member.pods)


def test_help_lists_the_direct_option() -> None:
    assert "--direct" in CliRunner().invoke(delete.command, ["pod", "--help"]).output


def test_eviction_against_the_budget_is_refused_with_the_reason(monkeypatch, capsys) -> None:
    async def scenario(member: SimulatedMember) -> None:
        name, _ = await pods_with_full_budget(member)
        assert not await parse(monkeypatch, name)(member.client)
        assert name in [pod.name for pod in member.pods]
        assert f"pod/{name} not evicted: The disruption budget web" in capsys.readouterr().err

    run_in_member(scenario)


def test_direct_ignores_the_budget(monkeypatch, capsys) -> None:
    async def scenario(member: SimulatedMember) -> None:
        name, _ = await pods_with_full_budget(member)
        assert await parse(monkeypatch, name, "--direct", "--grace-period", "0")(member.client)
        await asyncio.sleep(5)
        assert name not in [pod.name for pod in member.pods]
        assert capsys.readouterr().out == f"pod/{name} deleted\n"

    run_in_member(scenario)


def test_error_for_one_pod_does_not_stop_the_others(monkeypatch, capsys) -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(DEPLOYMENTS, deployment(replicas=1))
        await asyncio.sleep(5)
        (name,) = [pod.name for pod in member.pods]
        assert not await parse(monkeypatch, "ghost", name)(member.client)
        output = capsys.readouterr()
        assert 'pods "ghost" not found' in output.err
        assert output.out == f"pod/{name} evicted\n"

    run_in_member(scenario)


def test_wait_retries_until_the_budget_allows_the_eviction(monkeypatch, capsys) -> None:
    async def scenario(member: SimulatedMember) -> None:
        name, _ = await pods_with_full_budget(member)
        waiting = asyncio.ensure_future(parse(monkeypatch, name, "--wait")(member.client))
        await asyncio.sleep(30)
        assert not waiting.done()
        await member.client.patch(BUDGETS, "default", "web", {"spec": {"minAvailable": 1}})
        assert await waiting
        assert capsys.readouterr().out == f"pod/{name} evicted\n"

    run_in_member(scenario)
