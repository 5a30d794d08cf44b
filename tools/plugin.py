"""Packs the kubectl plugin of a release: an archive for krew, and the manifest that names it.

The archive has Trimtab and its dependencies as they are in the image, and starts them with the Python of the machine. Some
dependencies are compiled for one version of Python, so it must be that of the image.
"""

import gzip
import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

import yaml
from archives import Entry, compress, sha256, tar
from image import HOME, PYTHON

LAUNCHER = f"""#!/bin/sh
# Starts Trimtab with the Python that its dependencies are compiled for.
here=$(dirname "$(readlink -f "$0")")
for python in {PYTHON} python3 python; do
  if "$python" -c 'import sys; sys.exit(sys.version_info[:2] != ({PYTHON.removeprefix("python").replace(".", ", ")}))' 2>/dev/null; then
    PYTHONPATH="$here/application:$here/dependencies" PYTHONDONTWRITEBYTECODE=1 exec "$python" -m MODULE "$@"
  fi
done
echo "kubectl trimtab needs {PYTHON} on the PATH; or install it with: pipx install trimtab" >&2
exit 1
"""
PROGRAMS = {"kubectl-trimtab": "trimtab", "kubectl_complete-trimtab": "trimtab.cli.kubectl_completion"}
DESCRIPTION = """\
Places workloads across Kubernetes clusters and moves them within disruption budgets: explain placements, plan and carry out
changes, drain clusters, rebalance, join and remove clusters.
"""


def write_plugin(image: Path, version: str, output: Path, download_url: str) -> tuple[Path, Path]:
    """Write the archive of the plugin, made of a built image, and its manifest."""
    architecture = image.name.removesuffix(".oci.tar").rpartition("-")[2]
    archive = output / f"kubectl-trimtab-{version}-linux-{architecture}.tar.gz"
    programs = [Entry(name, LAUNCHER.replace("MODULE", module).encode(), 0o755) for name, module in PROGRAMS.items()]
    entries, epoch = application_entries(image)
    archive.write_bytes(compress(tar([*programs, *entries], epoch)))
    manifest = output / "trimtab.krew.yaml"
    content = krew_manifest(version, architecture, f"{download_url.rstrip('/')}/{archive.name}", archive)
    manifest.write_text(yaml.safe_dump(content, sort_keys=False))
    return archive, manifest


def krew_manifest(version: str, architecture: str, uri: str, archive: Path) -> dict[str, object]:
    platform = {
        "selector": {"matchLabels": {"os": "linux", "arch": architecture}},
        "uri": uri,
        "sha256": sha256(archive.read_bytes()),
        "bin": "kubectl-trimtab",
    }
    return {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "trimtab"},
        "spec": {
            "version": f"v{version}",
            "homepage": uri.rpartition("/")[0],
            "shortDescription": "Place and move workloads across clusters",
            "description": DESCRIPTION,
            "caveats": f"It needs {PYTHON} on the PATH.",
            "platforms": [platform],
        },
    }


def application_entries(image: Path) -> tuple[list[Entry], int]:
    """Trimtab and its dependencies in an image, and the time stamp of the files."""
    entries: list[Entry] = []
    epoch = 0
    for layer in layers_of(image):
        with tarfile.open(fileobj=io.BytesIO(layer)) as content:
            for member in content:
                epoch = int(member.mtime)
                if member.isfile() and member.name.startswith(f"{HOME}/"):
                    file = content.extractfile(member)
                    name = member.name.removeprefix(f"{HOME}/")
                    entries.append(Entry(name, file.read() if file is not None else b"", member.mode))
    return entries, epoch


def layers_of(image: Path) -> Iterator[bytes]:
    with tarfile.open(image) as archive:

        def read(name: str) -> bytes:
            file = archive.extractfile(name)
            if file is None:
                raise ValueError(f"{image} is no image: {name} is no file")
            return file.read()

        def blob(descriptor: dict[str, str]) -> bytes:
            return read(f"blobs/sha256/{descriptor['digest'].removeprefix('sha256:')}")

        manifest = json.loads(blob(json.loads(read("index.json"))["manifests"][0]))
        for layer in manifest["layers"]:
            yield gzip.decompress(blob(layer))
