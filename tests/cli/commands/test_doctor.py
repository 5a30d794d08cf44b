"""`trimtab doctor` reads a real API server over TLS and exits with 1 when something is wrong."""

import asyncio
import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from trimtab.cli.commands.doctor import VALIDATING
from trimtab.cli.main import trimtab
from trimtab.cli.support.account_rights import DEPLOYMENTS
from trimtab.client.client import Resource
from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import load

NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
ROLES = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)
ROLE_BINDINGS = Resource(
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)
CLUSTERS = Resource("cluster.karmada.io", "v1alpha1", "clusters", "Cluster", namespaced=False)


def create_cluster(kubeconfig: str) -> None:
    async def create() -> None:
        client = KubeClient(load(kubeconfig))
        spec = {"syncMode": "Push", "apiEndpoint": "https://127.0.0.1:1"}
        body = {"apiVersion": CLUSTERS.api_version, "kind": "Cluster", "metadata": {"name": "dark"}, "spec": spec}
        await client.create(CLUSTERS, body)
        await client.close()

    asyncio.run(create())


def test_findings_are_printed_with_remedies_and_the_exit_code_tells(kubeconfig: str) -> None:
    quiet = CliRunner().invoke(trimtab, ["doctor", "--kubeconfig", kubeconfig])
    assert quiet.exit_code == 0, quiet.output
    assert "the API server serves all kinds of Trimtab" in quiet.output
    assert "this user has all rights that the controllers need" in quiet.output
    assert "cluster: run `trimtab join NAME --kubeconfig FILE`" in quiet.output

    assert CliRunner().invoke(trimtab, ["freeze", "--reason", "rehearsal", "--kubeconfig", kubeconfig]).exit_code == 0
    frozen = CliRunner().invoke(trimtab, ["doctor", "--kubeconfig", kubeconfig])
    assert "all moves are frozen since" in frozen.output
    assert "freeze: find out why, then run `trimtab thaw`" in frozen.output

    create_cluster(kubeconfig)
    result = CliRunner().invoke(trimtab, ["doctor", "--kubeconfig", kubeconfig, "-o", "json"])
    assert result.exit_code == 1
    problems = [finding for finding in json.loads(result.stdout) if finding["level"] == "problem"]
    assert [finding["message"] for finding in problems] == ["cluster dark is not ready (it was never probed)"]
    assert problems[0]["remedy"] == "check its API server https://127.0.0.1:1 and its credentials"


def test_webhook_without_a_certificate_authority_is_found(kubeconfig: str) -> None:
    hook = {
        "name": "checks.trimtab.dev",
        "clientConfig": {"service": {"namespace": "trimtab-system", "name": "hook", "path": "/checks"}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    body = {
        "apiVersion": VALIDATING.api_version,
        "kind": VALIDATING.kind,
        "metadata": {"name": "hook"},
        "webhooks": [hook],
    }

    async def change(*, create: bool) -> None:
        client = KubeClient(load(kubeconfig))
        if create:
            await client.create(VALIDATING, body)
        else:
            await client.delete(VALIDATING, "", "hook")
        await client.close()

    asyncio.run(change(create=True))
    result = CliRunner().invoke(trimtab, ["doctor", "--kubeconfig", kubeconfig, "-o", "json"])
    asyncio.run(change(create=False))
    (finding,) = [finding for finding in json.loads(result.stdout) if finding["check"] == "webhook"]
    assert "the webhook configuration hook has no certificate authority" in finding["message"]


def apply_objects(kubeconfig: str, *objects: tuple[Resource, dict[str, Any]]) -> None:
    async def create() -> None:
        client = KubeClient(load(kubeconfig))
        for resource, body in objects:
            await client.create(resource, {"apiVersion": resource.api_version, "kind": resource.kind, **body})
        await client.close()

    asyncio.run(create())


def findings_of(kubeconfig: str, check: str) -> list[dict[str, str]]:
    result = CliRunner().invoke(trimtab, ["doctor", "--kubeconfig", kubeconfig, "-o", "json"])
    return [finding for finding in json.loads(result.stdout) if finding["check"] == check]


def test_webhook_that_the_api_server_cannot_call_is_found(kubeconfig: str) -> None:
    hook = {
        "name": "checks.trimtab.dev",
        "clientConfig": {"url": "https://127.0.0.1:1/checks", "caBundle": "e30="},
        "rules": [
            {
                "apiGroups": ["trimtab.dev"],
                "apiVersions": ["*"],
                "operations": ["CREATE"],
                "resources": ["disruptionbudgets"],
            }
        ],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    apply_objects(kubeconfig, (VALIDATING, {"metadata": {"name": "hook"}, "webhooks": [hook]}))
    (finding,) = findings_of(kubeconfig, "webhook")
    assert finding["level"] == "problem"
    assert 'cannot call the webhook hook: failed calling webhook "checks.trimtab.dev"' in finding["message"]


def test_rights_of_the_account_of_the_installed_controllers_are_checked(kubeconfig: str) -> None:
    labels = {"app.kubernetes.io/name": "trimtab"}
    container = {"name": "controllers", "image": "trimtab", "args": ["controllers", "--kinds=deployments.apps"]}
    pod = {"metadata": {"labels": labels}, "spec": {"serviceAccountName": "trimtab", "containers": [container]}}
    spec = {"selector": {"matchLabels": labels}, "template": pod}
    apply_objects(
        kubeconfig,
        (NAMESPACES, {"metadata": {"name": "fleet"}}),
        (DEPLOYMENTS, {"metadata": {"namespace": "fleet", "name": "trimtab", "labels": labels}, "spec": spec}),
    )
    (finding,) = findings_of(kubeconfig, "rights")
    assert finding["level"] == "problem"
    assert finding["message"].startswith("the account fleet/trimtab of the controllers may not list deployments.apps, ")

    reads = ["get", "list", "watch", "update", "patch"]
    rules = [
        {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": reads},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]},
        {"apiGroups": [""], "resources": ["namespaces", "events"], "verbs": ["create"]},
        {"apiGroups": ["work.karmada.io"], "resources": ["works"], "verbs": ["*"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["update"]},
    ]
    subject = {"kind": "ServiceAccount", "namespace": "fleet", "name": "trimtab"}
    ref = {"apiGroup": ROLES.group, "kind": "ClusterRole", "name": "small"}
    apply_objects(
        kubeconfig,
        (ROLES, {"metadata": {"name": "small"}, "rules": rules}),
        (ROLE_BINDINGS, {"metadata": {"name": "small"}, "roleRef": ref, "subjects": [subject]}),
    )
    (finding,) = findings_of(kubeconfig, "rights")
    assert finding["message"].endswith("may not create leases.coordination.k8s.io in fleet")


def test_server_that_cannot_be_reached_is_a_finding_with_a_remedy(tmp_path: Path) -> None:
    users = "users: [{name: a, user: {token: x}}]\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n"
    cluster = '{server: "https://127.0.0.1:1", insecure-skip-tls-verify: true}'
    text = f"kind: Config\nclusters: [{{name: a, cluster: {cluster}}}]\n{users}current-context: a\n"
    (tmp_path / "kubeconfig").write_text(text)
    result = CliRunner().invoke(trimtab, ["doctor", "--kubeconfig", str(tmp_path / "kubeconfig"), "-o", "json"])
    assert result.exit_code == 1
    (finding,) = json.loads(result.stdout)
    assert finding["check"] == "connectivity"
    assert "cannot be reached" in finding["message"]
    assert finding["remedy"].startswith("check that it runs")
