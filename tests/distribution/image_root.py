"""The root file system of the image, and processes in it as a container runtime starts them."""

import gzip
import io
import json
import os
import signal
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

SERVICE_ACCOUNT = "var/run/secrets/kubernetes.io/serviceaccount"
STOP_SECONDS = 120
# The root cannot be written; scratch space, devices and processes are there, as in a container.
MOUNTS = """
mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && mount -t tmpfs -o mode=1777 tmpfs "$0/tmp" || exit 125
[ ! -d "$0/dev" ] || mount --rbind /dev "$0/dev" || exit 125
[ ! -d "$0/proc" ] || mount -t proc proc "$0/proc" || exit 125
[ -z "$ACCOUNT" ] || mount --bind "$ACCOUNT" "$0/$ACCOUNT_TARGET" || exit 125
exec env -i "$@"
"""


class ImageRoot(NamedTuple):
    """An unpacked image."""

    path: Path
    config: dict[str, Any]

    def command(self, *arguments: str, environment: Sequence[str] = ()) -> list[str]:
        """The entry point with the user and the environment of the image, in mounts of its own."""
        if os.geteuid() != 0:
            pytest.fail("this test changes the root directory; run it as root")
        chroot = ("/usr/sbin/chroot", f"--userspec={self.config['User']}", str(self.path))
        entry = (*self.config["Env"], *environment, *chroot, *self.config["Entrypoint"], *arguments)
        return ["unshare", "--mount", "--", "sh", "-c", MOUNTS, str(self.path), *entry]


def unpack(image: Path, root: Path) -> ImageRoot:
    """Unpack all layers of an OCI archive."""
    with tarfile.open(image) as archive:

        def read(descriptor: dict[str, str]) -> bytes:
            member = archive.extractfile(f"blobs/sha256/{descriptor['digest'].removeprefix('sha256:')}")
            assert member is not None
            return member.read()

        index_file = archive.extractfile("index.json")
        assert index_file is not None
        manifest = json.loads(read(json.loads(index_file.read())["manifests"][0]))
        config = json.loads(read(manifest["config"]))["config"]
        for layer in manifest["layers"]:
            with tarfile.open(fileobj=io.BytesIO(gzip.decompress(read(layer)))) as content:
                content.extractall(root, filter="tar")
    root.chmod(0o755)  # the user of the image enters it
    return ImageRoot(root, config)


def add_mount_points(image: ImageRoot) -> None:
    """Directories that a container runtime creates for its mounts."""
    for name in ("dev", "proc", SERVICE_ACCOUNT.replace("var/run", "run")):
        (image.path / name).mkdir(mode=0o755, parents=True, exist_ok=True)
    run = image.path / "var" / "run"
    if not run.exists():
        run.parent.mkdir(exist_ok=True)
        run.symlink_to("../run")


class PodProcess:
    """A container of a Deployment: its arguments, in the image, with the credentials of its service account."""

    def __init__(self, image: ImageRoot, arguments: Sequence[str], account: Path, server: str, log: Path) -> None:
        """`account` has the files that a kubelet mounts: token, ca.crt and namespace."""
        host, _, port = server.removeprefix("https://").partition(":")
        environment = (f"KUBERNETES_SERVICE_HOST={host}", f"KUBERNETES_SERVICE_PORT={port}")
        self._command = image.command(*arguments, environment=environment)
        self._environment = {
            **os.environ,
            "ACCOUNT": str(account),
            "ACCOUNT_TARGET": SERVICE_ACCOUNT.replace("var/run", "run"),
        }
        self.log = log
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self._command, stdout=log, stderr=log, env=self._environment, process_group=0
            )

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def runs(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def tail(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-20:]) if self.log.exists() else ""

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(STOP_SECONDS)
            self.process = None
