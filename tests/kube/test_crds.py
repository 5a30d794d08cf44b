"""A real kube-apiserver accepts our CRDs and the objects of the proposals."""

import json
from pathlib import Path

import pytest
import yaml
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
