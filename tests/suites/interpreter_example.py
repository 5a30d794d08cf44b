"""The example of an interpreter webhook that Karmada's suite expects: its server, its kind and its configuration."""

import asyncio
import base64
import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from trimtab.api.yaml_documents import FILE, load_yaml
from trimtab.client.client import Resource
from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import load
from trimtab.errors import AlreadyExists

EXAMPLE = Path("examples") / "customresourceinterpreter"
CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False)
CONFIGURATIONS = Resource(
    "config.karmada.io",
    "v1alpha1",
    "resourceinterpreterwebhookconfigurations",
    "ResourceInterpreterWebhookConfiguration",
    namespaced=False,
)
SECONDS_TO_START = 60


@contextlib.contextmanager
def start_example(program: Path, source: Path, data: Path, members: tuple[str, ...]) -> Iterator[None]:
    """Run the webhook of the example against a fleet with its data in a directory, until the context ends."""
    certificates = data.parent / "webhook-certificates"
    certificates.mkdir(exist_ok=True)
    for name in ("crt", "key"):
        shutil.copyfile(data / "pki" / f"server.{name}", certificates / f"tls.{name}")
    port = free_port()
    command = [str(program), "--bind-address=127.0.0.1", f"--secure-port={port}", f"--cert-dir={certificates}"]
    environment = {**os.environ, "KUBECONFIG": str(data / "kubeconfig")}
    with (data.parent / "webhook.log").open("wb") as log:
        running = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)
    try:
        wait_for_port(running, port)
        asyncio.run(create_objects(source, data, f"https://127.0.0.1:{port}/interpreter-workload", members))
        yield
    finally:
        running.terminate()
        running.wait()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def wait_for_port(running: subprocess.Popen[bytes], port: int) -> None:
    begun = time.monotonic()
    while running.poll() is None and time.monotonic() - begun < SECONDS_TO_START:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.1)
    raise SystemExit(f"{running.args} did not start")


async def create_objects(source: Path, data: Path, url: str, members: tuple[str, ...]) -> None:
    """Create the kind everywhere and the configuration of the webhook in the control plane."""
    definition = load_yaml((source / EXAMPLE / "apis" / "workload.example.io_workloads.yaml").read_text(), FILE)
    for context in ("", *members):
        await create(data, context, CRDS, definition)
    await create(data, "", CONFIGURATIONS, configuration(source, data, url))


def configuration(source: Path, data: Path, url: str) -> dict[str, Any]:
    """The configuration of the example with its address and the certificate of its authority."""
    text = (source / EXAMPLE / "webhook-configuration.yaml").read_text()
    bundle = base64.b64encode((data / "pki" / "ca.crt").read_bytes()).decode()
    found: dict[str, Any] = yaml.safe_load(text.replace("{{caBundle}}", bundle).replace("{{", "").replace("}}", ""))
    found["webhooks"][0]["clientConfig"]["url"] = url
    return found


async def create(data: Path, context: str, resource: Resource, obj: dict[str, Any]) -> None:
    client = KubeClient(load(data / "kubeconfig", context))
    try:
        with contextlib.suppress(AlreadyExists):
            await client.create(resource, obj)
    finally:
        await client.close()
