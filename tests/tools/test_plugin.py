"""The kubectl plugin is made of an image, starts with a matching Python, and its manifest names its checksum."""

import hashlib
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml
from archives import Entry
from image import HOME, PYTHON, make_layer, oci_archive
from plugin import write_plugin

PROGRAM = b"import sys; from words import WORDS; print(WORDS, *sys.argv[1:])"


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    """The archive and the manifest of a small image, and the unpacked archive in `unpacked`."""
    package = f"{HOME}/application/trimtab"
    application = [Entry(f"{package}/__init__.py"), Entry(f"{package}/__main__.py", PROGRAM), Entry("etc/passwd", b"x")]
    dependencies = [Entry(f"{HOME}/dependencies/words.py", b"WORDS = 'from the image'")]
    layers = [make_layer("dependencies", dependencies, 5), make_layer("application", application, 5)]
    image = tmp_path / "trimtab-1.2.3-amd64.oci.tar"
    image.write_bytes(oci_archive(layers, "1.2.3", 5))
    archive, _ = write_plugin(image, "1.2.3", tmp_path, "https://example.com/v1.2.3/")
    with tarfile.open(archive) as content:
        content.extractall(tmp_path / "unpacked", filter="data")
    return tmp_path


def test_manifest_names_the_archive_and_its_checksum(plugin: Path) -> None:
    manifest = yaml.safe_load((plugin / "trimtab.krew.yaml").read_text())
    (platform,) = manifest["spec"]["platforms"]
    archive = plugin / "kubectl-trimtab-1.2.3-linux-amd64.tar.gz"
    assert platform["uri"] == f"https://example.com/v1.2.3/{archive.name}"
    assert platform["sha256"] == hashlib.sha256(archive.read_bytes()).hexdigest()
    assert (manifest["metadata"]["name"], manifest["spec"]["version"]) == ("trimtab", "v1.2.3")
    assert os.access(plugin / "unpacked" / platform["bin"], os.X_OK)


def test_archive_has_only_the_application_and_its_dependencies(plugin: Path) -> None:
    names = {path.name for path in (plugin / "unpacked").iterdir()}
    assert names == {"application", "dependencies", "kubectl-trimtab", "kubectl_complete-trimtab"}


def run_through_link(plugin: Path, **python: str) -> subprocess.CompletedProcess[str]:
    """Start the plugin as krew does, through a link, with these commands on the PATH."""
    tools = plugin / "tools"
    tools.mkdir()
    for name, script in {"dirname": "", "readlink": "", **python}.items():
        if script:
            (tools / name).write_text(f"#!/bin/sh\n{script}\n")
            (tools / name).chmod(0o755)
        else:
            (tools / name).symlink_to(f"/usr/bin/{name}")
    link = plugin / "kubectl-trimtab"
    link.symlink_to(plugin / "unpacked" / "kubectl-trimtab")
    return subprocess.run(
        [link, "version", "two words"], capture_output=True, text=True, env={"PATH": str(tools)}, check=False
    )


@pytest.mark.skipif(f"python{sys.version_info[0]}.{sys.version_info[1]}" != PYTHON, reason=f"this is not {PYTHON}")
def test_plugin_starts_with_the_python_of_the_machine(plugin: Path) -> None:
    done = run_through_link(plugin, python3=f'exec {sys.executable} "$@"')
    assert (done.stdout, done.returncode) == ("from the image version two words\n", 0), done.stderr


def test_other_python_is_refused_with_what_to_do(plugin: Path) -> None:
    done = run_through_link(plugin, python3="exit 1")
    assert done.returncode == 1
    assert f"needs {PYTHON}" in done.stderr
