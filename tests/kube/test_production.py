"""Production in one run: the chart's objects, the image's processes, and everything that goes wrong in the middle of a rebalance.

The objects that helm renders are checked and stored by a real API server. The processes of the Deployments run from the root file
system of the image, with the arguments, the account and exactly the rights of the chart. Workloads move to other clusters under a
budget while the leader is killed, the release is upgraded, tokens and certificates are rotated, and `kubectl drain` of stock
kubectl empties a node. Nothing is overspent, nothing happens twice, and everything converges.
"""

import asyncio
import base64
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from distribution.image_root import ImageRoot, PodProcess, add_mount_points, unpack
from kube.fleet import ENTRY, RealFleet, all_ready, wait_until
from kube.rig import RealControlPlane, free_port, kubectl
from kube.workloads import SAMPLE_SECONDS, ReadyReplicas

from trimtab.client.client import Resource
from trimtab.client.kube import KubeClient
from trimtab.errors import ApiError, NotFound
from trimtab.runtime.cache import CacheEntry

ROOT = Path(__file__).resolve().parents[2]
RELEASE, SPACE = "trimtab", "trimtab-system"
CERTIFICATES = f"{RELEASE}-webhook-certificates"
SHOP = "shop"
WORKLOADS, REPLICAS, MAX_UNAVAILABLE = 4, 4, 1
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
SECRETS = Resource("", "v1", "secrets", "Secret")
MOVES = Resource("trimtab.dev", "v1alpha1", "moves", "Move")
POLICIES = Resource("policy.karmada.io", "v1alpha1", "propagationpolicies", "PropagationPolicy")
BINDINGS = Resource("work.karmada.io", "v1alpha2", "resourcebindings", "ResourceBinding")
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
BUDGETS = Resource("trimtab.dev", "v1alpha1", "disruptionbudgets", "DisruptionBudget")
CHART_VALUES = (
    "webhook.enabled=true",
    "webhook.pods=false",
    "leaderElection.leaseSeconds=6",
    "propagation.kinds.apps={deployments}",
)
POD_VALUES = (
    "webhook.enabled=true",
    "webhook.pods=true",
    "webhook.budgetTarget=Pods",
    "podControllers.enabled=true",
    "leaderElection.leaseSeconds=6",
)


def packaging_tool(name: str) -> str:
    sys.path[:0] = [str(ROOT / "rig"), str(ROOT / "tools")]
    from packaging_tools import find_tool

    found = find_tool(name)
    if found is None:
        pytest.skip(f"{name} is missing; run `make packaging-tools`")
    return str(found)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> ImageRoot:
    """The image of this code; one that was built before can be given in TRIMTAB_IMAGE."""
    built = Path(os.environ.get("TRIMTAB_IMAGE", ""))
    if not built.is_file():
        packaging_tool("mmdebstrap")
        from image import build_image

        built = build_image(tmp_path_factory.mktemp("image"), None)[0]
    found = unpack(built, tmp_path_factory.mktemp("root"))
    add_mount_points(found)
    for folder in (found.path, *found.path.parents):
        if folder.is_relative_to("/tmp") and folder != Path("/tmp"):
            folder.chmod(0o755)  # the user of the image reaches its root
    return found


class Release:
    """A release of the chart in one cluster, and the processes of its Deployments."""

    def __init__(self, plane: RealControlPlane, image: ImageRoot, folder: Path, *values: str) -> None:
        self._plane = plane
        self._image = image
        self._folder = folder
        self._values = values
        self._account_folders: dict[str, Path] = {}
        self.webhook_port = free_port()
        self.processes: dict[str, PodProcess] = {}
        self.objects: list[dict[str, Any]] = []

    def apply(self, *values: str) -> None:
        """What `helm install` or `helm upgrade` sends, after the API server has checked it."""
        flags = [flag for value in (*self._values, *values) for flag in ("--set", value)]
        chart = str(ROOT / "charts" / "trimtab")
        command = [packaging_tool("helm"), "template", RELEASE, chart, "-n", SPACE, "--kube-version", "1.32.0", *flags]
        rendered = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        self.objects = [obj for obj in yaml.safe_load_all(rendered) if obj and obj["kind"] != "Pod"]
        for obj in self.objects:
            if obj["kind"].endswith("WebhookConfiguration"):
                self._use_address(obj)
        given = json.dumps({"apiVersion": "v1", "kind": "List", "items": self.objects})
        kubectl(self._plane, "apply", "--dry-run=server", "-f", "-", given=given)
        kubectl(self._plane, "apply", "-f", "-", given=given)

    def _use_address(self, configuration: dict[str, Any]) -> None:
        """No Service has an address without nodes: the API server calls the process on this machine."""
        for hook in configuration["webhooks"]:
            path = hook["clientConfig"].pop("service")["path"]
            hook["clientConfig"]["url"] = f"https://127.0.0.1:{self.webhook_port}{path}"

    def start(self, name: str, deployment: str) -> PodProcess:
        """One pod of a Deployment, with its arguments; only ports are its own."""
        (found,) = (
            obj for obj in self.objects if obj["kind"] == "Deployment" and obj["metadata"]["name"] == deployment
        )
        pod = found["spec"]["template"]["spec"]
        arguments = [
            flag for flag in pod["containers"][0]["args"] if not flag.startswith(("--health-address", "--port"))
        ]
        if arguments[0] == "webhook":
            arguments += [f"--port={self.webhook_port}", "--name=127.0.0.1"]
        account = self.account(pod["serviceAccountName"])
        process = PodProcess(self._image, arguments, account, self._plane.server, self._folder / f"{name}.log")
        process.start()
        self.processes[name] = process
        return process

    def account(self, name: str) -> Path:
        """The files of a service account, as a kubelet mounts them."""
        if name not in self._account_folders:
            folder = self._folder / f"account-{name}"
            folder.mkdir(mode=0o755)
            self._account_folders[name] = folder
            (folder / "namespace").write_text(SPACE)
            config = json.loads(kubectl(self._plane, "config", "view", "--raw", "--flatten", "-o", "json"))
            authority = config["clusters"][0]["cluster"]["certificate-authority-data"]
            (folder / "ca.crt").write_bytes(base64.b64decode(authority))
            self.rotate_token(name)
        return self._account_folders[name]

    def rotate_token(self, name: str) -> None:
        """Give the processes of an account another token, in the same file."""
        token = kubectl(self._plane, "-n", SPACE, "create", "token", name, "--duration=1h").strip()
        path = self._account_folders[name] / "token"
        path.write_text(token)
        path.chmod(0o644)

    def rotate_tokens(self) -> None:
        for name in self._account_folders:
            self.rotate_token(name)

    def stop(self) -> None:
        for process in self.processes.values():
            process.stop()

    def logs(self) -> str:
        return "\n".join(f"== {name}\n{process.tail()}" for name, process in self.processes.items())


class Observer:
    """Watches moves and replicas while everything happens."""

    def __init__(self, fleet: RealFleet) -> None:
        self._fleet = fleet
        self._open: set[str] = set()
        self.most_open = 0
        self.fewest_ready = REPLICAS
        self.history: list[tuple[float, list[str]]] = []
        self.samples = 0
        self._sampling: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._fleet.cached_client.cache.table(BINDINGS).add_listener(self._binding_changed)
        self._sampling = asyncio.ensure_future(self._sample())

    async def stop(self) -> None:
        assert self._sampling is not None
        assert not self._sampling.done(), self._sampling
        self._sampling.cancel()

    def _binding_changed(self, old: CacheEntry | None, new: CacheEntry | None) -> None:
        """A move is in progress while its replicas are held, or evicted, in the cluster that they leave."""
        entry = new or old
        if entry is None or entry.name[0] != SHOP:
            return
        raw = new.raw if new is not None else {}
        holds = (raw.get("status") or {}).get("holds") or ()
        tasks = (raw.get("spec") or {}).get("gracefulEvictionTasks") or ()
        self._open.discard(entry.name[1])
        if holds or tasks:
            self._open.add(entry.name[1])
        self.history.append((time.monotonic(), sorted(self._open)))
        self.most_open = max(self.most_open, len(self._open))

    async def _sample(self) -> None:
        """Count ready replicas by reading the API servers: watches of several servers arrive at different times.

        Workloads move from member1 to member3, and the members are read in that order: a replica that left before its
        replacement was ready is missing in the sum for as long as the replacement takes to start.
        """
        members = [self._fleet.real_members[name].client for name in sorted(self._fleet.real_members)]
        while True:
            total: Counter[str] = Counter()
            for client in members:
                total.update(await replicas_in(client, SHOP))
            self.samples += 1
            self.fewest_ready = min(self.fewest_ready, *total.values())
            await asyncio.sleep(SAMPLE_SECONDS)


def policy(clusters: tuple[str, ...]) -> dict[str, Any]:
    weights = [{"targetCluster": {"clusterNames": [name]}, "weight": 1} for name in clusters]
    return {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"name": "shop", "namespace": SHOP},
        "spec": {
            "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}],
            "placement": {
                "clusterAffinity": {"clusterNames": list(clusters)},
                "replicaScheduling": {
                    "replicaSchedulingType": "Divided",
                    "replicaDivisionPreference": "Weighted",
                    "weightPreference": {"staticWeightList": weights},
                },
            },
        },
    }


def workload(name: str, namespace: str, replicas: int) -> dict[str, Any]:
    labels = {"app": name, "team": "shop"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template},
    }


def budget(namespace: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "trimtab.dev/v1alpha1",
        "kind": "DisruptionBudget",
        "metadata": {"name": "shop", "namespace": namespace},
        "spec": {"selector": {"matchLabels": {"team": "shop"}}, **spec},
    }


@pytest.fixture
def production(fleet: RealFleet, image: ImageRoot, tmp_path: Path) -> Iterator[tuple[Release, Release]]:
    """The release on the host, and the one in member1 that guards its pods."""
    tmp_path.chmod(0o755)
    host = Release(fleet.host, image, tmp_path / "host", *CHART_VALUES)
    pods = Release(fleet.real_members["member1"].plane, image, tmp_path / "member1", *POD_VALUES)
    for release, plane in ((host, fleet.host), (pods, fleet.real_members["member1"].plane)):
        release._folder.mkdir(mode=0o755)
        kubectl(plane, "create", "namespace", SPACE)
    try:
        yield host, pods
    finally:
        for release, plane in ((host, fleet.host), (pods, fleet.real_members["member1"].plane)):
            release.stop()
            kubectl(plane, "delete", "-f", "-", "--ignore-not-found", given=as_list(release.objects))
            kubectl(plane, "delete", "namespace", SPACE, "--ignore-not-found")


def as_list(objects: list[dict[str, Any]]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})


async def leader_pid(fleet: RealFleet) -> int:
    """The process that leads; 0 if none does. Its identity has the id of the process."""
    try:
        lease = await fleet.client.get(LEASES, SPACE, "trimtab-controllers")
    except NotFound:
        return 0
    holder = lease["spec"].get("holderIdentity") or "__"
    pid = holder.split("_")[-2]
    return int(pid) if pid.isdigit() else 0


async def ended_moves(fleet: RealFleet) -> int:
    moves = (await fleet.client.list(MOVES, SHOP)).items
    return sum(1 for move in moves if (move.get("status") or {}).get("outcome"))


async def placements(fleet: RealFleet) -> dict[str, dict[str, int]]:
    """The clusters of every workload, and of replicas that are still held elsewhere."""
    found = {}
    for raw in (await fleet.client.list(BINDINGS, SHOP)).items:
        shares = {target["name"]: target["replicas"] for target in raw["spec"].get("clusters") or ()}
        if (raw.get("status") or {}).get("holds") or raw["spec"].get("gracefulEvictionTasks"):
            shares["held"] = 1
        found[raw["spec"]["resource"]["name"]] = shares
    return found


async def replicas_in(client: KubeClient, namespace: str) -> dict[str, int]:
    found = (await client.list(DEPLOYMENTS, namespace)).items
    return {raw["metadata"]["name"]: (raw.get("status") or {}).get("readyReplicas", 0) for raw in found}


async def has_arrived(fleet: RealFleet, clusters: tuple[str, ...]) -> bool:
    share = REPLICAS // len(clusters)
    wanted = dict.fromkeys(clusters, share)
    if any(shares != wanted for shares in (await placements(fleet)).values()):
        return False
    for name, member in fleet.real_members.items():
        ready = await replicas_in(member.client, SHOP)
        if name in clusters and list(ready.values()) != [share] * WORKLOADS:
            return False
        if name not in clusters and ready:
            return False
    return True


def test_rebalance_survives_crash_upgrade_and_rotation_within_its_budget(
    fleet: RealFleet, production: tuple[Release, Release]
) -> None:
    host, pods = production
    observer = Observer(fleet)
    run = fleet.loop.run

    host.apply()
    first = [host.start("controllers-1", RELEASE), host.start("controllers-2", RELEASE)]
    host.start("webhook-1", f"{RELEASE}-webhook")
    run(wait_until(lambda: all_ready(fleet)))
    run(wait_until(lambda: webhook_answers(fleet.client)))
    for member in fleet.real_members.values():
        check_minimal_rights(member.plane)

    kubectl(fleet.host, "create", "namespace", SHOP)
    start = [
        *(workload(f"web-{number}", SHOP, REPLICAS) for number in range(WORKLOADS)),
        policy(("member1", "member2")),
    ]
    kubectl(fleet.host, "apply", "-f", "-", given=as_list(start))
    limits = budget(SHOP, maxUnavailable=MAX_UNAVAILABLE, maxConcurrent=1, target="Workloads")
    kubectl(fleet.host, "apply", "-f", "-", given=json.dumps(limits))
    run(wait_until(lambda: has_arrived(fleet, ("member1", "member2"))))
    run(observer.start())

    kubectl(fleet.host, "apply", "-f", "-", given=json.dumps(policy(("member2", "member3"))))
    run(wait_until(lambda: has_ended(fleet, 1)))
    killed = run(leader_pid(fleet))
    assert killed in [process.pid for process in first]
    os.kill(killed, signal.SIGKILL)
    run(wait_until(lambda: another_leads(fleet, killed)))

    run(wait_until(lambda: has_ended(fleet, 2)))
    host.rotate_tokens()
    before = run(certificate_data(fleet))
    run(fleet.client.delete(SECRETS, SPACE, CERTIFICATES))
    host.apply("settings.evacuate-after-seconds=290")
    second = [host.start("controllers-3", RELEASE), host.start("controllers-4", RELEASE)]
    for process in first:
        if process.pid != killed:
            process.stop()
    assert all("--set=evacuate-after-seconds=290" in " ".join(process._command) for process in second)
    run(wait_until(lambda: has_other_certificates(fleet, before)))
    run(wait_until(lambda: webhook_answers(fleet.client)))

    run(wait_until(lambda: has_arrived(fleet, ("member2", "member3"))))
    run(observer.stop())
    moves = run(fleet.client.list(MOVES, SHOP)).items
    by_source = Counter((move["spec"]["object"]["name"], move["spec"]["from"]) for move in moves)
    assert observer.most_open == 1, f"the budget allows one move at a time: {observer.history}"
    assert observer.fewest_ready >= REPLICAS - MAX_UNAVAILABLE, f"in {observer.samples} samples"
    assert set(by_source.values()) == {1}, f"a move happened twice: {by_source}"
    assert all((move["status"] or {}).get("outcome") for move in moves)
    assert "forbidden" not in host.logs().lower(), host.logs()

    drain_under_budget(fleet, pods)
    kubectl(fleet.host, "delete", "namespace", SHOP)


def drain_under_budget(fleet: RealFleet, release: Release) -> None:
    """Stock `kubectl drain` of a node of member1, whose evictions the webhook of the chart gates."""
    member = fleet.real_members["member1"]
    run = fleet.loop.run
    install_definitions(member.plane)
    release.apply()
    release.start("webhook", f"{RELEASE}-webhook")
    release.start("pods", f"{RELEASE}-pods")
    run(wait_until(lambda: webhook_answers(member.client)))
    given = [workload("local", "default", 3), budget("default", maxUnavailable=1)]
    node, *others = sorted(member.kubelets.machines)
    kubectl(member.plane, "cordon", *others)  # all pods on one node: its drain must wait between them
    kubectl(member.plane, "apply", "-f", "-", given=as_list(given[:1]))

    async def is_running() -> bool:
        return (await replicas_in(member.client, "default")).get("local") == 3

    async def is_counted() -> bool:
        status = (await member.client.get(BUDGETS, "default", "shop")).get("status") or {}
        return status.get("disruptionsAllowed") == 1

    run(wait_until(is_running))
    kubectl(member.plane, "uncordon", *others)
    placed = json.loads(kubectl(member.plane, "get", "pods", "-l", "app=local", "-o", "json"))["items"]
    assert {pod["spec"]["nodeName"] for pod in placed} == {node}
    kubectl(member.plane, "apply", "-f", "-", given=as_list(given[1:]))
    run(wait_until(is_counted))
    ready = ReadyReplicas(member.client, "default", "local")
    run(ready.start())
    done = subprocess.run(
        [
            *member.plane.kubectl,
            "drain",
            node,
            "--ignore-daemonsets",
            "--delete-emptydir-data",
            "--force",
            "--timeout=600s",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr + release.logs()
    run(wait_until(is_running))
    run(ready.stop())
    assert ready.fewest is not None
    assert ready.fewest >= 2, "the budget allows one of three to be missing"
    # kubectl waits as the answer with the code 429 tells it to, and says nothing.
    refused = "refused: Cannot evict pod as it would violate the pod's disruption budget. The disruption budget shop"
    assert refused in release.processes["webhook"].log.read_text(), release.logs()
    status = run(member.client.get(BUDGETS, "default", "shop"))["status"]
    assert not any(condition["type"] == "RateExceeded" for condition in status["conditions"])
    assert "forbidden" not in release.logs().lower(), release.logs()
    kubectl(member.plane, "uncordon", node)
    kubectl(member.plane, "delete", "-f", "-", given=as_list(given))


def install_definitions(plane: RealControlPlane) -> None:
    printed = subprocess.run(
        [sys.executable, "-c", ENTRY, "crds", "--group", "trimtab.dev"], capture_output=True, text=True, check=True
    )
    kubectl(plane, "apply", "--server-side", "-f", "-", given=printed.stdout)
    kubectl(plane, "wait", "--for=condition=Established", "crd/disruptionbudgets.trimtab.dev", "--timeout=300s")


async def has_ended(fleet: RealFleet, count: int) -> bool:
    return await ended_moves(fleet) >= count


async def another_leads(fleet: RealFleet, killed: int) -> bool:
    return await leader_pid(fleet) not in (0, killed)


def check_minimal_rights(member: RealControlPlane) -> None:
    """The control plane is no administrator of the member: it propagates objects, and cannot do anything else."""
    account = f"--as=system:serviceaccount:karmada-cluster:karmada-{member.name}"
    for verb, resource, is_allowed in (
        ("create", "deployments", True),
        ("*", "*", False),
        ("deletecollection", "pods", False),
        ("approve", "signers.certificates.k8s.io", False),
        ("impersonate", "users", False),
        ("impersonate", "groups", False),
    ):
        done = subprocess.run(
            [*member.kubectl, "auth", "can-i", verb, resource, account], capture_output=True, text=True, check=False
        )
        assert done.stdout.strip() == ("yes" if is_allowed else "no"), (verb, resource, done)


async def webhook_answers(client: KubeClient) -> bool:
    """A schedule that does not exist is refused by the webhook alone."""
    wrong = budget("default", windows=[{"schedule": "0 33 * * *", "duration": "1h"}])
    try:
        await client.create(BUDGETS, wrong, dry_run=True)
    except (ApiError, OSError) as fault:
        return "schedule" in str(fault)
    return False


async def certificate_data(fleet: RealFleet) -> Any:
    return (await fleet.client.get(SECRETS, SPACE, CERTIFICATES))["data"]


async def has_other_certificates(fleet: RealFleet, before: Any) -> bool:
    try:
        return await certificate_data(fleet) != before
    except NotFound:
        return False
