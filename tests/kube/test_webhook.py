"""The webhook on a real kube-apiserver: checks over TLS, and the eviction gate with stock kubectl."""

import asyncio
import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from kube.fleet import ENTRY, ControllersProcess, LoopThread, RealMember, wait_until, wait_until_served
from kube.rig import RealControlPlane, free_port, kubectl
from kube.workloads import ReadyReplicas

from api.admission.enforcement_cases import Case, all_cases
from trimtab.api.kind import find_kind
from trimtab.cli.commands.crds import command as crds
from trimtab.cli.commands.webhook import command as webhook
from trimtab.client.client import Resource, resource_of
from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import load
from trimtab.errors import ApiError
from trimtab.runtime.cache import Cache
from trimtab.simulate.fleet import flows_fleet
from trimtab.webhook.kind_admission import KindAdmission
from trimtab.webhook.requirement_checks import RequirementChecks
from trimtab.webhook.review import Refused, Review

NAMESPACE = "trimtab-system"
BUDGETS = Resource("trimtab.dev", "v1alpha1", "disruptionbudgets", "DisruptionBudget")
POD_BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
PODS = Resource("", "v1", "pods", "Pod")
REPLICAS = 3


class WebhookProcess:
    """`trimtab webhook` for an API server on the same machine."""

    def __init__(self, plane: RealControlPlane, directory: Path, *flags: str) -> None:
        self.port = free_port()
        self._log = directory / "webhook.log"
        self._plane = plane
        self._command = [sys.executable, "-c", ENTRY, "webhook", "--kubeconfig", str(plane.kubeconfig)]
        self._command += ["--port", str(self.port), "--bind", "127.0.0.1", "--name", "127.0.0.1", "-v", *flags]
        self._process: subprocess.Popen[bytes] | None = None

    def install(self, *flags: str) -> None:
        kubectl(self._plane, "create", "namespace", NAMESPACE)
        printed = CliRunner().invoke(webhook, ["--print", "--url", f"https://127.0.0.1:{self.port}", *flags])
        kubectl(self._plane, "apply", "-f", "-", given=printed.output)

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, process_group=0)
        deadline = time.monotonic() + 300
        while "is ready" not in self._log.read_text():
            assert self._process.poll() is None, self._log.read_text()
            assert time.monotonic() < deadline, self._log.read_text()
            time.sleep(0.1)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """The process accepts connections and answers nothing."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(60)
            self._process = None
            self._log.write_text("")


def install_definitions(plane: RealControlPlane, loop: LoopThread) -> None:
    for flags in ([], ["--policies"]):
        kubectl(plane, "apply", "--server-side", "-f", "-", given=CliRunner().invoke(crds, flags).output)

    async def served() -> None:
        client = KubeClient(load(plane.kubeconfig))
        await wait_until_served(client)
        await client.close()

    loop.run(served())


@pytest.fixture(scope="module")
def loop() -> Iterator[LoopThread]:
    thread = LoopThread()
    yield thread
    thread.close()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, loop: LoopThread) -> Iterator[RealMember]:
    """A real cluster with nodes, our definitions and policies."""
    plan = flows_fleet()
    member = RealMember(plan.members[0], plan, tmp_path_factory.mktemp("webhook"), pods=True)
    loop.run(member.start())
    try:
        install_definitions(member.plane, loop)
        yield member
    finally:
        loop.run(member.stop())


@pytest.fixture(scope="module")
def running(cluster: RealMember, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebhookProcess]:
    process = WebhookProcess(cluster.plane, tmp_path_factory.mktemp("process"), "--budget-target=Pods")
    process.install()
    process.start()
    yield process
    process.stop()


async def refusal(client: KubeClient, case: Case) -> str:
    kind = find_kind(case.obj["apiVersion"], case.obj["kind"])
    assert kind is not None
    try:
        await client.create(resource_of(kind), case.obj, dry_run=True)
    except ApiError as fault:
        return fault.message
    return ""


async def refusal_by_checks(admission: KindAdmission, case: Case) -> str:
    kind = find_kind(case.obj["apiVersion"], case.obj["kind"])
    assert kind is not None
    review = Review("r1", kind.id, "CREATE", user="admin", groups=("system:masters",), object=case.obj)
    try:
        filled = (await admission.mutate(review)).object or case.obj
        await admission.validate(review._replace(object=filled))
    except Refused as refused:
        return str(refused)
    return ""


def webhook_cases() -> list[Case]:
    """Objects that only the webhook can judge."""

    def budget(**spec: Any) -> dict[str, Any]:
        return {
            "apiVersion": "trimtab.dev/v1alpha1",
            "kind": "DisruptionBudget",
            "metadata": {"namespace": "default", "name": "b"},
            "spec": {"target": "Pods", **spec},
        }

    def script(text: str) -> dict[str, Any]:
        rules = {"replicaResource": {"luaScript": text}}
        return {
            "apiVersion": "config.karmada.io/v1alpha1",
            "kind": "ResourceInterpreterCustomization",
            "metadata": {"name": "c"},
            "spec": {"target": {"apiVersion": "a/v1", "kind": "B"}, "customizations": rules},
        }

    window = {"duration": "1h"}
    return [
        Case("window", budget(windows=[{**window, "schedule": "0 3 * * *"}])),
        Case("no window", budget(windows=[{**window, "schedule": "0 33 * * *"}])),
        Case("percent", budget(maxUnavailable="20%")),
        Case("no percent", budget(maxUnavailable="120%")),
        Case("script", script("function GetReplicas(obj) return 1, nil end")),
        Case("no script", script("function (")),
    ]


def test_real_server_refuses_exactly_what_the_checks_refuse(
    cluster: RealMember, running: WebhookProcess, loop: LoopThread
) -> None:
    async def compare() -> list[str]:
        client = KubeClient(load(cluster.plane.kubeconfig))
        cache = Cache(client)
        admission = KindAdmission(cache, budget_target="Pods", requirements=RequirementChecks(client))
        different = []
        for case in (*all_cases(), *webhook_cases()):
            if case.old is not None:
                continue
            real, checks = await refusal(client, case), await refusal_by_checks(admission, case)
            if bool(real) != bool(checks):
                different.append(f"{case.name}\n    real:   {real}\n    checks: {checks}")
        await cache.close()
        await client.close()
        return different

    different = loop.run(compare())
    assert not different, "\n".join(different)


def test_protected_object_cannot_be_deleted(cluster: RealMember) -> None:
    kubectl(cluster.plane, "create", "configmap", "precious")
    label = "resourcetemplate.karmada.io/deletion-protected"
    kubectl(cluster.plane, "label", "configmap", "precious", f"{label}=Always")
    with pytest.raises(AssertionError, match="This resource is protected"):
        kubectl(cluster.plane, "delete", "configmap", "precious")
    kubectl(cluster.plane, "label", "configmap", "precious", f"{label}-")
    kubectl(cluster.plane, "delete", "configmap", "precious")


def deployment(name: str) -> str:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": REPLICAS, "selector": {"matchLabels": labels}, "template": template}
    return json.dumps({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec})


def budget(name: str, **spec: Any) -> str:
    spec = {"selector": {"matchLabels": {"app": name}}, "maxUnavailable": 1, **spec}
    head = {"apiVersion": "trimtab.dev/v1alpha1", "kind": "DisruptionBudget"}
    return json.dumps({**head, "metadata": {"name": name}, "spec": spec})


async def pods_of(client: KubeClient, name: str) -> list[dict[str, Any]]:
    return [
        pod
        for pod in (await client.list(PODS, "default", labels=f"app={name}")).items
        if not pod["metadata"].get("deletionTimestamp")
    ]


async def is_running(client: KubeClient, name: str) -> bool:
    found = await pods_of(client, name)
    ready = [
        pod
        for pod in found
        if any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions") or [])
    ]
    return len(ready) == REPLICAS


async def status_of(client: KubeClient, name: str) -> dict[str, Any]:
    return (await client.get(BUDGETS, "default", name)).get("status") or {}


@pytest.fixture
def pod_controllers(cluster: RealMember, tmp_path: Path) -> Iterator[ControllersProcess]:
    with ControllersProcess(cluster.plane.kubeconfig, tmp_path / "pods.log", "--roles", "pods", "-v") as process:
        yield process


def test_drain_of_stock_kubectl_waits_for_the_budget_and_goes_on(
    cluster: RealMember, running: WebhookProcess, pod_controllers: ControllersProcess, loop: LoopThread
) -> None:
    client = cluster.client

    async def set_up() -> list[str]:
        await wait_until(lambda: is_running(client, "web"))

        async def is_counted() -> bool:
            return (await status_of(client, "web")).get("disruptionsAllowed") == 1

        await wait_until(is_counted)
        return sorted({pod["spec"]["nodeName"] for pod in await pods_of(client, "web")})

    kubectl(cluster.plane, "apply", "-f", "-", given=deployment("web"))
    kubectl(cluster.plane, "apply", "-f", "-", given=budget("web", rate={"disruptions": 1, "period": "20s"}))
    nodes = loop.run(asyncio.wait_for(set_up(), 300))
    floor = loop.run(client.get(POD_BUDGETS, "default", "web"))
    assert floor["spec"]["maxUnavailable"] == 1
    before = loop.run(status_of(client, "web"))
    tried = subprocess.run(
        [*cluster.plane.kubectl, "drain", nodes[0], "--ignore-daemonsets", "--force", "--dry-run=server"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert tried.returncode == 0, tried.stderr
    assert not loop.run(status_of(client, "web")).get("disruptedPods")
    assert (loop.run(status_of(client, "web")).get("rate") or {}).get("recent") == (before.get("rate") or {}).get(
        "recent"
    )
    refused = 0
    for node in nodes:
        done = subprocess.run(
            [*cluster.plane.kubectl, "drain", node, "--ignore-daemonsets", "--force", "--timeout=300s"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        refused += done.stderr.count("will retry after")
        kubectl(cluster.plane, "uncordon", node)
    recent = (loop.run(status_of(client, "web")).get("rate") or {}).get("recent") or []
    assert len(recent) <= 1  # never more in twenty seconds
    loop.run(asyncio.wait_for(wait_until(lambda: is_running(client, "web")), 300))
    assert not any(c["type"] == "RateExceeded" for c in loop.run(status_of(client, "web"))["conditions"])


def test_without_a_webhook_the_floor_holds_and_the_overspent_rate_is_reported(
    cluster: RealMember, running: WebhookProcess, pod_controllers: ControllersProcess, loop: LoopThread
) -> None:
    client = cluster.client
    kubectl(cluster.plane, "apply", "-f", "-", given=deployment("floor"))
    kubectl(cluster.plane, "apply", "-f", "-", given=budget("floor", rate={"disruptions": 1, "period": "1h"}))

    async def set_up() -> list[str]:
        await wait_until(lambda: is_running(client, "floor"))

        async def has_floor() -> bool:
            found = (await client.list(POD_BUDGETS, "default")).items
            return any(
                one["metadata"]["name"] == "floor" and (one.get("status") or {}).get("disruptionsAllowed") == 1
                for one in found
            )

        await wait_until(has_floor)
        return [pod["metadata"]["name"] for pod in await pods_of(client, "floor")]

    names = loop.run(asyncio.wait_for(set_up(), 300))

    async def evict(name: str) -> int:
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"namespace": "default", "name": name}}
        try:
            await client.submit(PODS, "default", name, "eviction", body)
        except ApiError as fault:
            return fault.code
        return 201

    async def is_reported() -> bool:
        conditions = (await status_of(client, "floor")).get("conditions") or []
        return any(c["type"] == "RateExceeded" and c["status"] == "True" for c in conditions)

    running.stop()
    try:
        first = loop.run(evict(names[0]))
        assert first == 201
        assert loop.run(evict(names[1])) == 429  # the PodDisruptionBudget still holds
        loop.run(asyncio.wait_for(wait_until(lambda: is_running(client, "floor")), 300))
        others = [pod["metadata"]["name"] for pod in loop.run(pods_of(client, "floor"))]

        async def second_is_evicted() -> bool:
            return await evict(others[0]) == 201

        loop.run(asyncio.wait_for(wait_until(second_is_evicted), 300))
        loop.run(asyncio.wait_for(wait_until(is_reported), 300))
    finally:
        running.start()


def test_drain_goes_on_while_the_webhook_hangs_and_no_charge_remains_afterwards(
    cluster: RealMember, running: WebhookProcess, pod_controllers: ControllersProcess, loop: LoopThread
) -> None:
    client, plane = cluster.client, cluster.plane
    node, *others = sorted(cluster.kubelets.machines)
    kubectl(plane, "cordon", *others)  # all pods on one node: its drain must wait between them
    kubectl(plane, "apply", "-f", "-", given=deployment("hang"))
    kubectl(plane, "apply", "-f", "-", given=budget("hang"))

    async def is_allowed() -> bool:
        floors = [one for one in (await client.list(POD_BUDGETS, "default")).items if one["metadata"]["name"] == "hang"]
        counts = [(one.get("status") or {}).get("disruptionsAllowed") for one in floors]
        status = await status_of(client, "hang")
        return counts == [1] and status.get("disruptionsAllowed") == 1 and not status.get("disruptedPods")

    loop.run(asyncio.wait_for(wait_until(lambda: is_running(client, "hang")), 300))
    loop.run(asyncio.wait_for(wait_until(is_allowed), 300))
    kubectl(plane, "uncordon", *others)
    ready = ReadyReplicas(client, "default", "hang")
    loop.run(ready.start())
    with running.paused():
        with pytest.raises(AssertionError, match=r"failed calling webhook.*context deadline exceeded"):
            kubectl(plane, "apply", "-f", "-", given=budget("refused"))
        done = subprocess.run(
            [*plane.kubectl, "drain", node, "--ignore-daemonsets", "--force", "--timeout=300s"],
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    loop.run(asyncio.wait_for(wait_until(lambda: is_running(client, "hang")), 300))
    loop.run(ready.stop())
    assert ready.fewest is not None
    assert ready.fewest >= REPLICAS - 1, "the floor holds the strength"
    # Reviews that waited in the paused process are answered now, to nobody: what they charge is given back.
    loop.run(asyncio.wait_for(wait_until(is_allowed), 300))
    kubectl(plane, "uncordon", node)
