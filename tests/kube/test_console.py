"""`trimtab console` on a real kube-apiserver: its authentication and RBAC decide what users see and do."""

import json
import re
import signal
import ssl
import subprocess
from collections.abc import Iterator
from http.client import HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

import pytest
from kube.rig import RealControlPlane, kubectl

from cli.processes import LIMIT, PYTHON

CLUSTER = """
apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: console-member}
spec: {syncMode: Push, region: eu, provider: aws}
"""
BINDING = """
apiVersion: v1
kind: Namespace
metadata: {{name: {0}}}
---
apiVersion: work.karmada.io/v1alpha2
kind: ResourceBinding
metadata: {{name: web-deployment, namespace: {0}}}
spec:
  resource: {{apiVersion: apps/v1, kind: Deployment, namespace: {0}, name: web}}
  replicas: 2
  clusters: [{{name: console-member, replicas: 2}}]
  placement: {{clusterAffinity: {{clusterNames: [console-member]}}}}
"""
VIEWER = """
apiVersion: v1
kind: ServiceAccount
metadata: {name: viewer, namespace: console-a}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: viewer, namespace: console-a}
rules: [{apiGroups: [work.karmada.io], resources: [resourcebindings], verbs: [get, list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: viewer, namespace: console-a}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: viewer}
subjects: [{kind: ServiceAccount, name: viewer, namespace: console-a}]
"""


class Answer(NamedTuple):
    code: int
    headers: dict[str, str]
    body: str

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class ConsoleProcess:
    """A `trimtab console`, and requests to it."""

    def __init__(self, link: str) -> None:
        self.address = urlsplit(link)

    def open(self, method: str, path: str, body: str = "", **headers: str) -> HTTPResponse:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = HTTPSConnection(self.address.netloc, context=context, timeout=LIMIT)
        connection.request(method, path, body or None, headers)
        return connection.getresponse()

    def request(self, method: str, path: str, body: str = "", **headers: str) -> Answer:
        response = self.open(method, path, body, **headers)
        return Answer(response.status, dict(response.getheaders()), response.read().decode())


@pytest.fixture(scope="module")
def console(host_with_crds: RealControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleProcess]:
    kubectl(host_with_crds, "apply", "-f", "-", given=CLUSTER)
    for namespace in ("console-a", "console-b"):
        kubectl(host_with_crds, "apply", "-f", "-", given=BINDING.format(namespace))
    kubectl(host_with_crds, "apply", "-f", "-", given=VIEWER)
    directory: Path = tmp_path_factory.mktemp("console")
    arguments = ["console", "--kubeconfig", str(host_with_crds.kubeconfig), "--port", "0", "--data-dir", str(directory)]
    process = subprocess.Popen([*PYTHON, *arguments], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    link = next((line.split()[1] for line in process.stdout if line.startswith("Console: ")), "")
    assert link, "trimtab console printed no link"
    yield ConsoleProcess(link)
    process.send_signal(signal.SIGINT)
    assert process.wait(LIMIT) == 0
    kubectl(host_with_crds, "delete", "cluster", "console-member", "--wait=false")


def sign_in_by_link(console: ConsoleProcess) -> str:
    first = console.request("GET", console.address.path)
    assert first.code == 200
    assert console.request("GET", console.address.path).code == 403, "a link signs in once"
    return first.headers["set-cookie"].partition(";")[0]


def test_console_acts_with_the_rights_of_each_user(console: ConsoleProcess, host_with_crds: RealControlPlane) -> None:
    cookie = sign_in_by_link(console)
    admin = {"cookie": cookie, "accept": "application/json"}
    seen = {row["workload"]["namespace"] for row in rows_of(console, admin)}
    assert {"console-a", "console-b"} <= seen
    token = kubectl(host_with_crds, "create", "token", "viewer", "-n", "console-a").strip()
    viewer = {"authorization": f"Bearer {token}", "accept": "application/json"}
    assert {row["workload"]["namespace"] for row in rows_of(console, viewer)} == {"console-a"}
    assert console.request("GET", "/console/workloads", **viewer).json["hidden"] >= 1
    assert console.request("GET", "/console/clusters/console-member", **viewer).code == 404
    wrong = {**viewer, "authorization": "Bearer invented"}
    assert console.request("GET", "/console/workloads", **wrong).code == 401
    form = {"content-type": "application/x-www-form-urlencoded"}
    path, body = "/console/clusters/console-member/drain", urlencode({"confirm": "console-member"})
    assert console.request("POST", path, body, **viewer, **form).code == 403, "the kube-apiserver refuses it"
    assert console.request("POST", path, body, **admin, **form).code == 403, "a cookie needs the token of a form"
    page = console.request("GET", "/console/clusters/console-member", cookie=cookie).body
    csrf = re.search(r'name="csrf" value="([0-9a-f]+)"', page)
    assert csrf is not None
    body = urlencode({"confirm": "console-member", "csrf": csrf[1]})
    stream = console.open("GET", "/console/events?page=/console/clusters/console-member&rev=0-0", cookie=cookie)
    assert console.request("POST", path, body, cookie=cookie, **form).code == 303
    annotations = json.loads(kubectl(host_with_crds, "get", "cluster", "console-member", "-o", "json"))["metadata"]
    assert "trimtab.dev/drain" in annotations["annotations"]
    for line in iter(stream.readline, b""):
        if b"<dd>since " in line:
            break
    else:
        pytest.fail("the stream ended before it said that the cluster is drained")
    stream.close()


def rows_of(console: ConsoleProcess, headers: dict[str, str]) -> list[Any]:
    rows = console.request("GET", "/console/workloads", **headers).json["rows"]
    return [row for row in rows if "workload" in row]
