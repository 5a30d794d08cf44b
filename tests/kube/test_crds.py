"""A real kube-apiserver accepts our CRDs and the objects of the proposals; controllers do not work with other CRDs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from kube.fleet import ENTRY, TIMEOUT_SECONDS
from kube.rig import RealControlPlane, kubectl

SEEDS = sorted((Path(__file__).parents[1] / "compat" / "seeds").glob("*.yaml"))


@pytest.mark.parametrize("path", SEEDS, ids=lambda path: path.stem)
def test_object_of_the_proposals_applies(host_with_crds: RealControlPlane, path: Path) -> None:
    namespace = yaml.safe_load(path.read_text())["metadata"].get("namespace", "default")
    if namespace != "default":
        wanted = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        kubectl(host_with_crds, "apply", "-f", "-", given=json.dumps(wanted))
    kubectl(host_with_crds, "apply", "-f", str(path))
    kubectl(host_with_crds, "delete", "-f", str(path))


def test_controllers_refuse_definitions_that_would_drop_holds(host_with_crds: RealControlPlane) -> None:
    """As with Karmada's own definitions, or when the controllers are upgraded before the kinds."""
    name = "crd/resourcebindings.work.karmada.io"
    stored = json.loads(kubectl(host_with_crds, "get", name, "-o", "json"))
    versions = stored["spec"]["versions"]
    current = next(number for number, version in enumerate(versions) if version["storage"])
    path = f"/spec/versions/{current}/schema/openAPIV3Schema/properties/status/properties/holds"
    holds = versions[current]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]["holds"]
    kubectl(host_with_crds, "patch", name, "--type=json", "-p", json.dumps([{"op": "remove", "path": path}]))
    try:
        controllers = [sys.executable, "-c", ENTRY, "controllers", "--kubeconfig", str(host_with_crds.kubeconfig)]
        done = subprocess.run(controllers, capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS)
        assert done.returncode == 1
        assert "resourcebindings.work.karmada.io lacks status.holds" in done.stderr
        assert "upgrade the chart trimtab-crds" in done.stderr
        doctor = [sys.executable, "-c", ENTRY, "doctor", "--kubeconfig", str(host_with_crds.kubeconfig)]
        found = subprocess.run(doctor, capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS)
        assert found.returncode == 1
        assert "the API server drops fields that its definitions lack" in found.stdout
    finally:
        restored = [{"op": "add", "path": path, "value": holds}]
        kubectl(host_with_crds, "patch", name, "--type=json", "-p", json.dumps(restored))
