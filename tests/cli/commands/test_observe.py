"""`trimtab observe` and `trimtab release` on a running server."""

import json
from pathlib import Path

from cli.commands.test_apiserver import RunningServer
from cli.processes import run_command

POLICIES = "/apis/policy.karmada.io/v1alpha1/namespaces/default/propagationpolicies"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
BINDINGS = "/apis/work.karmada.io/v1alpha2/resourcebindings"
MAPS = "/api/v1/namespaces/default/configmaps"


def test_observe_lists_what_would_change_and_changes_nothing(tmp_path: Path) -> None:
    server = RunningServer(tmp_path)
    kubeconfig = ("--kubeconfig", str(tmp_path / "kubeconfig"))
    server.request(MAPS, {"metadata": {"name": "settings"}, "data": {"a": "b"}})
    selector = {"apiVersion": "v1", "kind": "ConfigMap", "name": "settings"}
    policy = {"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy", "metadata": {"name": "all"}}
    server.request(POLICIES, {**policy, "spec": {"resourceSelectors": [selector]}})
    found = run_command("observe", *kubeconfig, "-o", "json")
    assert found.code == 0, found.err
    document = json.loads(found.out)
    assert (document["memberWrites"], document["finished"]) == ([], True)
    assert "ResourceBinding default/settings-configmap: created" in document["hostChanges"]
    assert server.request(BINDINGS)["items"] == []
    own = run_command("observe", *kubeconfig, "-o", "json", "--lease-namespace", "default")
    assert not [line for line in json.loads(own.out)["hostChanges"] if line.startswith("ResourceBinding")]
    server.request(LEASES, {"metadata": {"name": "trimtab-controllers"}, "spec": {"holderIdentity": ""}})
    found = run_command("observe", *kubeconfig, "-o", "json")  # it finds the namespace of the control plane itself
    assert not [line for line in json.loads(found.out)["hostChanges"] if line.startswith("ResourceBinding")]
    assert server.stop() == 0
