"""A real kube-apiserver takes our definitions and the objects of the design documents."""

import json
from pathlib import Path

import pytest
import yaml
from kube.rig import ControlPlane, kubectl

SEEDS = sorted((Path(__file__).parents[1] / "compat" / "seeds").glob("*.yaml"))


@pytest.mark.parametrize("path", SEEDS, ids=lambda path: path.stem)
def test_an_object_of_the_documents_applies(defined: ControlPlane, path: Path) -> None:
    namespace = yaml.safe_load(path.read_text())["metadata"].get("namespace", "default")
    if namespace != "default":
        wanted = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        kubectl(defined, "apply", "-f", "-", given=json.dumps(wanted))
    kubectl(defined, "apply", "-f", str(path))
    kubectl(defined, "delete", "-f", str(path))
