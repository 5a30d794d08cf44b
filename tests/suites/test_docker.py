"""The stand-in for docker keeps containers with labels and addresses, and answers as kind needs it."""

import json
from pathlib import Path

import pytest
from suites.docker import Container, Docker


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Docker:
    def start(container: Container, labels: dict[str, str], address: str) -> None:
        container.directory.mkdir()
        (container.directory / "kubeconfig").write_text("config")
        (container.directory / "state.json").write_text(json.dumps({**labels, "address": address}))

    monkeypatch.setattr(Container, "start", start)
    return Docker(tmp_path / "containers")


def test_nodes_of_a_cluster_are_found_by_label(docker: Docker) -> None:
    label = "io.x-k8s.kind.cluster"
    docker.run(["run", "--name", "a-control-plane", "--label", f"{label}=a", "--label", "role=control-plane", "image"])
    docker.run(["run", "--name", "b-control-plane", "--label", f"{label}=b", "image"])
    assert docker.run(["ps", "-a", "--filter", f"label={label}=a", "--format", "{{.Names}}"]) == "a-control-plane\n"
    assert docker.run(["ps", "-a", "--filter", f"label={label}", "--format", "{{.Label}}"]) == "a\nb\n"
    addresses = {docker.run(["inspect", "--format", "{{.IPAddress}}", f"{name}-control-plane"]) for name in "ab"}
    assert len(addresses) == 2
    role = docker.run(["inspect", "--format", '{{ index .Config.Labels "role"}}', "a-control-plane"])
    assert role == "control-plane\n"


def test_files_of_a_node_are_readable(docker: Docker) -> None:
    docker.run(["run", "--name", "a-control-plane", "image"])
    assert docker.run(["exec", "--privileged", "a-control-plane", "cat", "/etc/kubernetes/admin.conf"]) == "config"
    assert docker.run(["exec", "a-control-plane", "cat", "/kind/version"]).startswith("v1.")
    assert docker.run(["exec", "a-control-plane", "kubeadm", "init"]) == ""
