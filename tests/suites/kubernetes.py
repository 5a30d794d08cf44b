"""Kubernetes' own end-to-end suite, against one simulated member."""

import asyncio
import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

import obtain_suites
from suites.kubectl_commands import run_kubectl_commands
from suites.peer_suite import ALL_SPECS, Invocation
from suites.processes import start_fleet

from trimtab.client.client import Resource
from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import load

MEMBER = "member1"
DIRECTORIES = ("apimachinery", "apps", "auth", "kubectl", "scheduling")
"""Directories of the suite below `test/e2e` that test the API and its controllers."""
FILES = {
    "architecture": ("conformance",),
    "common/node": (
        *("configmap", "ephemeral_containers", "init_container", "lease", "node_lease", "pod_admission", "pods"),
        *("podtemplates", "runtimeclass", "secrets"),
    ),
    "instrumentation": ("core_events", "events"),
    "network": ("endpointslice", "endpointslicemirroring", "ingress", "ingressclass", "proxy", "service"),
    "node": ("events", "node_lifecycle", "pods", "runtimeclass", "taints"),
    "storage": (
        *("csi_inline", "csi_node", "csistoragecapacity", "persistent_volumes", "pv_protection", "pvc_protection"),
        *("storageclass", "volume_attachment"),
    ),
}
"""Files of other directories that do so; the others test kubelets, container runtimes, networks and disks."""
API_SPECS = {
    "network/service": (
        "should (provide secure master service|prevent NodePort collisions|check NodePort out-of-range"
        "|find a service from listing all namespaces|test the lifecycle of an Endpoint"
        "|complete a service status lifecycle|delete a collection of services)"
    ),
    "storage/persistent_volumes": "CSI Conformance",
}
"""The specs that test the API, of files whose other specs send packets or mount disks."""

ZONED_AREA = "scheduling/ubernetes_lite"
"""Its specs skip themselves in a cluster of one zone."""
DAEMON_SETS = Resource("apps", "v1", "daemonsets", "DaemonSet")
NODE_AGENTS = ("kube-proxy", "fluentd-elasticsearch", "node-problem-detector")
"""System pods for which many specs wait a minute on every node, and go on without them."""


def emulated_version() -> str:
    """The minor version of the suite."""
    major, minor, _ = obtain_suites.SUITES["kubernetes"].release.removeprefix("v").split(".")
    return f"{major}.{minor}"


def write_fleet(directory: Path, area: str) -> Path:
    """Three nodes that report local storage and handlers of RuntimeClasses, as real ones do."""
    pool = {"nodes": 3, "resources": {"ephemeral-storage": "100Gi"}, "runtimeHandlers": ["runc", "test-handler"]}
    pools = [pool] if area != ZONED_AREA else [{**pool, "name": zone, "zone": zone} for zone in ("a", "b")]
    path = directory / "fleet.json"
    path.write_text(json.dumps({"members": [{"name": MEMBER, "pools": pools}], "emulatedVersion": emulated_version()}))
    return path


async def create_node_agents(kubeconfig: Path) -> None:
    client = KubeClient(load(kubeconfig, MEMBER))
    try:
        for name in NODE_AGENTS:
            labels = {"k8s-app": name}
            pod = {"containers": [{"name": name, "image": name}], "tolerations": [{"operator": "Exists"}]}
            spec = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}
            await client.create(DAEMON_SETS, {"metadata": {"name": name, "namespace": "kube-system"}, "spec": spec})
    finally:
        await client.close()


class KubernetesSuite:
    name = "kubernetes"
    quick = ("apimachinery/watch", "apimachinery/table_conversion", "apimachinery/discovery")
    minutes_per_area = 60
    further_areas = {"cmd": run_kubectl_commands}

    def __init__(self) -> None:
        self.binary = obtain_suites.SUITES[self.name].directory / "e2e.test"

    def area_of(self, file: str) -> str:
        """`apimachinery/watch` for a file of that name; areas that need real machines are left out."""
        path = Path(file.rpartition("/e2e/")[2])
        directory = str(path.parent)
        is_area = directory in DIRECTORIES or path.stem in FILES.get(directory, ())
        return str(path.with_suffix("")) if is_area else ""

    def focus_of(self, area: str) -> list[str]:
        return [f"--ginkgo.focus-file=/e2e/{area}.go"]

    def specs_of(self, area: str) -> str:
        return API_SPECS.get(area, ALL_SPECS)

    @contextlib.contextmanager
    def start(self, directory: Path, area: str) -> Iterator[Invocation]:
        with start_fleet(directory, f"--fleet={write_fleet(directory, area)}") as fleet:
            asyncio.run(create_node_agents(fleet.kubeconfig))
            command = [
                str(self.binary),
                f"--kubeconfig={fleet.kubeconfig}",
                f"--context={MEMBER}",
                "--provider=skeleton",
            ]
            # kubectl must not use discovery documents of an earlier server on the same port
            yield Invocation(command, {**os.environ, "KUBECACHEDIR": os.devnull})
