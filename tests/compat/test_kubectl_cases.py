"""Recorded kubectl commands print the same with our server as with a real kube-apiserver."""

import gzip
import json
import os
import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest

RECORDED = gzip.decompress((Path(__file__).parent / "wire" / "kubectl-cases.jsonl.gz").read_bytes())
CASES = [json.loads(line) for line in RECORDED.splitlines()]
KUBECTL = os.environ.get("KUBECTL") or shutil.which("kubectl.1.32") or shutil.which("kubectl")
MASKS = [
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UID"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", "TS"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)? [+-]\d{4}", "TS"),
    (r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "TS"),
    (r"(resourceVersion\"?: ?)\"\d+\"", r'\1"RV"'),
    (r"(Resource Version: +)\d+", r"\1RV"),
    (r"https?://(127\.0\.0\.1|localhost|\[::1\]):\d+", "SERVER"),
    (r"(127\.0\.0\.1|localhost):\d+", "SERVERADDR"),
    (r"(?m)^(I|W|E)\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ ", r"\1LOG "),
    (r"(?<![\w.-])(\d+d)?(\d+h)?(\d+m)?\d+[smhd](?![\w-])", "AGE"),
    (r"(?<=\S) {2,}", "  "),
    (r"(?m)[ \t]+$", ""),
]
LETTERS = "bcdfghjklmnpqrstvwxz2456789"

pytestmark = pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")


class Kubectl:
    """Runs kubectl with its own home directory."""

    def __init__(self, kubeconfig: Path, home: Path) -> None:
        self.environment = {
            "PATH": os.environ.get("PATH", ""),
            "HOME": str(home),
            "KUBECONFIG": str(kubeconfig),
            "LANG": "C",
            "TZ": "UTC",
            "KUBECTL_EXTERNAL_DIFF": "diff -u -N",
        }

    def __call__(
        self, *arguments: str, stdin: str | None = None, cwd: Path | None = None
    ) -> subprocess.CompletedProcess:
        return subprocess.run(
            [KUBECTL, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            env=self.environment,
            cwd=cwd,
            timeout=60,
            check=False,
        )


@pytest.fixture(scope="module")
def kubectl(api_server, tmp_path_factory) -> Kubectl:
    run = Kubectl(api_server.kubeconfig, tmp_path_factory.mktemp("home"))
    run("api-resources")  # fill the discovery cache once
    return run


class CaseDirectory:
    """The namespace and directory of one case."""

    def __init__(self, directory: Path) -> None:
        self.id = random.choice("bcdf") + "".join(random.choice(LETTERS) for _ in range(7))
        self.namespace = f"w{self.id}"
        self.directory = directory

    def fill(self, text: str) -> str:
        named = text.replace("{{ID}}", self.id).replace("{{NS}}", self.namespace)
        return named.replace("{{DIR}}", str(self.directory))

    def mask(self, text: str, case: dict) -> str:
        text = text.replace(str(self.directory), "DIR").replace(self.namespace, "NAMESPACE").replace(self.id, "CASEID0")
        for pattern, name in [*case.get("mask", []), *MASKS]:
            text = re.sub(pattern, name, text)
        if case.get("unordered"):
            text = "\n".join(sorted(text.splitlines())) + ("\n" if text else "")
        return text


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_kubectl_prints_what_was_recorded(case: dict, kubectl: Kubectl, tmp_path: Path) -> None:
    place = CaseDirectory(tmp_path)
    base = [] if case.get("no_ns") else ["-n", place.namespace]
    for name, text in case.get("files", {}).items():
        (tmp_path / name).write_text(place.fill(text))
    if base:
        kubectl("create", "namespace", place.namespace)
    try:
        for document in case.get("setup", []):
            kubectl(*base, "create", "-f", "-", stdin=place.fill(document))
        for before in case.get("pre", []):
            kubectl(*base, *map(place.fill, before), cwd=tmp_path)
        stdin = place.fill(case["stdin"]) if "stdin" in case else None
        done = kubectl(*base, *map(place.fill, case["cmd"]), stdin=stdin, cwd=tmp_path)
    finally:
        for after in case.get("post", []):
            kubectl(*base, *map(place.fill, after), cwd=tmp_path)
        if base:
            kubectl("delete", "namespace", place.namespace, "--wait=false", "--ignore-not-found")
    wanted = case["expect"]
    assert place.mask(done.stdout, case) == wanted["stdout"]
    if case.get("stderr_mode") != "ignore":
        assert place.mask(done.stderr, case) == wanted["stderr"]
    assert done.returncode == wanted["exit"]
