"""A real kube-apiserver takes our definitions and the objects of the design documents."""

import json
import subprocess
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from kube.rig import ControlPlane

from trimtab.cli.crds import command

SEEDS = sorted((Path(__file__).parents[1] / "compat" / "seeds").glob("*.yaml"))


def kubectl(host: ControlPlane, *arguments: str, given: str = "") -> str:
    done = subprocess.run([*host.kubectl, *arguments], input=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def defined(host: ControlPlane) -> ControlPlane:
    definitions = CliRunner().invoke(command).output
    kubectl(host, "apply", "--server-side", "-f", "-", given=definitions)
    kubectl(host, "wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
    return host


@pytest.mark.parametrize("path", SEEDS, ids=lambda path: path.stem)
def test_an_object_of_the_documents_applies(defined: ControlPlane, path: Path) -> None:
    namespace = yaml.safe_load(path.read_text())["metadata"].get("namespace", "default")
    if namespace != "default":
        wanted = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        kubectl(defined, "apply", "-f", "-", given=json.dumps(wanted))
    kubectl(defined, "apply", "-f", str(path))
