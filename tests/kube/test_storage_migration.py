"""`trimtab migrate-storage` on a real API server: an old version of a definition can be removed afterwards."""

import json

import pytest
from click.testing import CliRunner
from kube.rig import RealControlPlane, kubectl

from trimtab.cli.commands.migrate_storage import command

NAME = "disruptionbudgets.trimtab.dev"


def test_old_version_can_be_removed_after_the_migration(host_with_crds: RealControlPlane) -> None:
    host = host_with_crds
    budget = {"apiVersion": "trimtab.dev/v1alpha1", "kind": "DisruptionBudget", "metadata": {"name": "kept"}}
    spec = {"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 1}
    kubectl(host, "apply", "-f", "-", given=json.dumps({**budget, "spec": spec}))
    current = json.loads(kubectl(host, "get", "crd", NAME, "-o", "json"))["spec"]["versions"]
    assert [version["name"] for version in current] == ["v1alpha1"]
    newer = [{**current[0], "storage": False}, {**current[0], "name": "v1beta1", "storage": True}]
    kubectl(host, "patch", "crd", NAME, "--type=merge", "-p", json.dumps({"spec": {"versions": newer}}))

    only_new = json.dumps({"spec": {"versions": newer[1:]}})
    with pytest.raises(AssertionError, match="storedVersions"):
        kubectl(host, "patch", "crd", NAME, "--type=merge", "-p", only_new)
    arguments = ["--kubeconfig", str(host.kubeconfig)]
    listed = CliRunner().invoke(command, [*arguments, "--dry-run"], catch_exceptions=False).output
    assert listed == f"{NAME}: has objects in v1alpha1\n"
    done = CliRunner().invoke(command, arguments, catch_exceptions=False).output
    assert done == f"{NAME}: 1 object rewritten, v1alpha1 can be removed\n"
    kubectl(host, "patch", "crd", NAME, "--type=merge", "-p", only_new)
    assert "kept" in kubectl(host, "get", "disruptionbudgets.v1beta1.trimtab.dev", "-o", "name")

    back = [{**current[0]}, {**current[0], "name": "v1beta1", "storage": False}]
    kubectl(host, "patch", "crd", NAME, "--type=merge", "-p", json.dumps({"spec": {"versions": back}}))
    CliRunner().invoke(command, arguments, catch_exceptions=False)
    kubectl(host, "patch", "crd", NAME, "--type=merge", "-p", json.dumps({"spec": {"versions": current}}))
    kubectl(host, "delete", "disruptionbudgets.v1alpha1.trimtab.dev", "kept")
    assert "current versions" in CliRunner().invoke(command, arguments, catch_exceptions=False).output
