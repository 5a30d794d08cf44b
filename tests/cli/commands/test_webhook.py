"""`trimtab webhook` in a process of its own: an API server calls it over TLS with the bundle that it wrote."""

import asyncio
import re
import socket
import subprocess
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from cli.processes import LIMIT, PYTHON, api_server, until
from trimtab.cli.commands.webhook import command
from trimtab.client.client import Resource
from trimtab.client.kube import KubeClient
from trimtab.errors import ApiError

NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
POLICIES = Resource("policy.karmada.io", "v1alpha1", "propagationpolicies", "PropagationPolicy")
BUDGETS = Resource("trimtab.dev", "v1alpha1", "disruptionbudgets", "DisruptionBudget")
SECRETS = Resource("", "v1", "secrets", "Secret")
PLURALS = {
    "MutatingWebhookConfiguration": "mutatingwebhookconfigurations",
    "ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
}


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def printed(*arguments: str) -> list[dict]:
    done = CliRunner().invoke(command, ["--print", *arguments])
    assert done.exit_code == 0, done.output
    return list(yaml.safe_load_all(done.output))


async def install(host: KubeClient, port: int) -> None:
    for name in ("trimtab-system", "demo"):
        await host.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    for obj in printed("--url", f"https://127.0.0.1:{port}"):
        resource = Resource("admissionregistration.k8s.io", "v1", PLURALS[obj["kind"]], obj["kind"], namespaced=False)
        await host.create(resource, obj)


def budget(schedule: str) -> dict:
    windows = [{"schedule": schedule, "duration": "1h"}]
    return {
        "apiVersion": "trimtab.dev/v1alpha1",
        "kind": "DisruptionBudget",
        "metadata": {"namespace": "demo", "name": "b"},
        "spec": {"windows": windows},
    }


async def refusal(host: KubeClient, obj: dict) -> ApiError | None:
    try:
        await host.create(BUDGETS, obj, dry_run=True)
    except ApiError as fault:
        return fault
    return None


def test_api_server_calls_the_webhook_with_the_bundle_that_it_wrote(tmp_path: Path) -> None:
    port = free_port()
    flags = ("--port", str(port), "--bind", "127.0.0.1", "--name", "127.0.0.1", "--health-address", "127.0.0.1:0", "-v")

    async def scenario() -> None:
        async with api_server(tmp_path / "host") as host:
            await install(host, port)
            assert "failed calling webhook" in str(await refusal(host, budget("0 3 * * *")))
            kubeconfig = str(tmp_path / "host" / "kubeconfig")
            with (tmp_path / "log").open("wb") as log:
                process = subprocess.Popen(  # noqa: ASYNC220 - it runs on while the test awaits
                    [*PYTHON, "webhook", "--kubeconfig", kubeconfig, *flags], stdout=log, stderr=log
                )
            try:

                async def is_ready() -> bool:
                    assert process.poll() is None, (tmp_path / "log").read_text()
                    return "is ready" in (tmp_path / "log").read_text()

                await until(is_ready)
                policy = await host.create(POLICIES, new_policy())
                assert policy["metadata"]["labels"]["propagationpolicy.karmada.io/permanent-id"]
                created = await host.create(BUDGETS, budget("0 3 * * *"), dry_run=True)
                assert created["spec"]["target"] == "Workloads"
                assert await host.get(SECRETS, "trimtab-system", "trimtab-webhook-certificates")
            finally:
                process.terminate()
                assert process.wait(LIMIT) == 0

    asyncio.run(scenario())


def new_policy() -> dict:
    selector = {"apiVersion": "apps/v1", "kind": "Deployment"}
    return {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"namespace": "demo", "name": "p"},
        "spec": {"resourceSelectors": [selector], "placement": {"spreadConstraints": [{"maxGroups": 2}]}},
    }


@pytest.mark.parametrize("service", ["trimtab-webhook", "other"])
def test_configurations_name_the_service(service: str) -> None:
    for obj in printed("--service", service, "--namespace", "ns"):
        for hook in obj["webhooks"]:
            found = hook["clientConfig"]["service"]
            assert (found["name"], found["namespace"], found["port"]) == (service, "ns", 443)
            assert re.fullmatch(r"/[a-z-]+", found["path"])
