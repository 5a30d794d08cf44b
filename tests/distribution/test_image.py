"""The image starts as an unprivileged user on a read-only root without a shell."""

import subprocess
from pathlib import Path

import pytest
from distribution.image_root import ImageRoot, unpack
from distribution.tools import tool


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from image import build_image

    tool("mmdebstrap")
    return build_image(tmp_path_factory.mktemp("image"), None)[0]


@pytest.fixture(scope="module")
def unpacked(image: Path, tmp_path_factory: pytest.TempPathFactory) -> ImageRoot:
    """The root file system and the configuration of the image."""
    return unpack(image, tmp_path_factory.mktemp("root"))


def run_in(unpacked: ImageRoot, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the entry point with the user and the environment of the image; the root cannot be written."""
    return subprocess.run(unpacked.command(*arguments), capture_output=True, text=True, check=False, timeout=300)


def test_image_is_small_enough(image: Path) -> None:
    assert image.stat().st_size < 70_000_000


def test_image_has_no_shell_and_no_package_manager(unpacked: ImageRoot) -> None:
    root = unpacked.path
    programs = [path.name for folder in ("bin", "sbin", "usr/bin", "usr/sbin") for path in (root / folder).glob("*")]
    assert programs == ["python3.11"]


def test_version_and_controllers_start_in_the_image(unpacked: ImageRoot) -> None:
    version = run_in(unpacked, "version")
    assert version.returncode == 0, version.stderr
    assert version.stdout.startswith("trimtab ")
    # Loads everything that the controllers need (numpy, lupa, aiohttp), and then says what is missing.
    controllers = run_in(unpacked, "controllers", "--kubeconfig", "/etc/none")
    assert controllers.returncode == 1
    assert "Traceback" not in controllers.stderr
    assert "/etc/none" in controllers.stderr


def test_byte_code_is_in_the_image(unpacked: ImageRoot) -> None:
    root = unpacked.path
    source = root / "opt/trimtab/application/trimtab/app.py"
    assert (source.parent / "__pycache__" / "app.cpython-311.pyc").exists()


def test_image_does_not_depend_on_where_it_was_built(unpacked: ImageRoot) -> None:
    packages = unpacked.path / "opt/trimtab"
    assert list(packages.rglob("direct_url.json")) == []
    records = [record.read_text() for record in packages.rglob("*.dist-info/RECORD")]
    assert records
    assert not any("direct_url.json" in record for record in records)


def test_image_names_an_unprivileged_user(unpacked: ImageRoot) -> None:
    assert unpacked.config["User"] == "65532:65532"
