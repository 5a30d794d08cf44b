"""The image starts as an unprivileged user on a read-only root without a shell."""

import gzip
import io
import json
import os
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest
from distribution.tools import tool

UNSHARE = ("unshare", "--mount", "--fork", "--")


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from image import build_image

    tool("mmdebstrap")
    return build_image(tmp_path_factory.mktemp("image"), None)[0]


@pytest.fixture(scope="module")
def unpacked(image: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The root file system and the configuration of the image."""
    root = tmp_path_factory.mktemp("root")
    with tarfile.open(image) as archive:

        def read(descriptor: dict[str, str]) -> bytes:
            return archive.extractfile(f"blobs/sha256/{descriptor['digest'].removeprefix('sha256:')}").read()

        index = json.loads(archive.extractfile("index.json").read())
        manifest = json.loads(read(index["manifests"][0]))
        config = json.loads(read(manifest["config"]))["config"]
        for layer in manifest["layers"]:
            with tarfile.open(fileobj=io.BytesIO(gzip.decompress(read(layer)))) as content:
                content.extractall(root, filter="tar")
    root.chmod(0o755)  # the user of the image enters it
    return root, config


def run_in(unpacked: tuple[Path, dict[str, Any]], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the entry point with the user and the environment of the image; the root cannot be written."""
    if os.geteuid() != 0:
        pytest.fail("this test changes the root directory; run it as root")
    root, config = unpacked
    mounts = (
        'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && mount -t tmpfs -o mode=1777 tmpfs "$0/tmp" && '
        'exec env -i "$@"'
    )
    chroot = ("/usr/sbin/chroot", f"--userspec={config['User']}", str(root))
    command = (*UNSHARE, "sh", "-c", mounts, str(root), *config["Env"], *chroot, *config["Entrypoint"], *arguments)
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


def test_image_is_small_enough(image: Path) -> None:
    assert image.stat().st_size < 70_000_000


def test_image_has_no_shell_and_no_package_manager(unpacked: tuple[Path, dict[str, Any]]) -> None:
    root, _ = unpacked
    programs = [path.name for folder in ("bin", "sbin", "usr/bin", "usr/sbin") for path in (root / folder).glob("*")]
    assert programs == ["python3.11"]


def test_version_and_controllers_start_in_the_image(unpacked: tuple[Path, dict[str, Any]]) -> None:
    version = run_in(unpacked, "version")
    assert version.returncode == 0, version.stderr
    assert version.stdout.startswith("trimtab ")
    # Loads everything that the controllers need (numpy, lupa, aiohttp), and then says what is missing.
    controllers = run_in(unpacked, "controllers", "--kubeconfig", "/etc/none")
    assert controllers.returncode == 1
    assert "Traceback" not in controllers.stderr
    assert "/etc/none" in controllers.stderr


def test_byte_code_is_in_the_image(unpacked: tuple[Path, dict[str, Any]]) -> None:
    root, _ = unpacked
    source = root / "opt/trimtab/application/trimtab/app.py"
    assert (source.parent / "__pycache__" / "app.cpython-311.pyc").exists()
