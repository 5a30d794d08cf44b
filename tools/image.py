"""`make image`: builds an OCI image of Trimtab without a container engine and without a registry.

Three layers, so that a new version of Trimtab replaces only the last one: Debian's Python and the libraries it needs, the
locked dependencies, Trimtab. The image has no shell and no package manager, runs as user 65532 and works on a read-only
root file system; byte code is compiled here, because such a root never gets any.

The result is an OCI layout in one file (`skopeo copy oci-archive:FILE docker://...` pushes it) and an SBOM in CycloneDX beside
it. The same commit, lock file and Debian packages give the same bytes.
"""

import argparse
import csv
import io
import json
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from archives import ROOT, Entry, compress, directory, entries_below, sha256, source_epoch, tar
from sbom import bill_of_materials

USER = 65532
PYTHON = "python3.11"
DEBIAN_RELEASE = "bookworm"
# numpy needs libstdc++6. libgcc-s1 is loaded by threads that end.
DEBIAN_PACKAGES = (
    f"{PYTHON}-minimal",
    f"lib{PYTHON}-stdlib",
    "ca-certificates",
    "libgcc-s1",
    "libstdc++6",
    "tzdata",
)
# What only the installation of these packages needs.
LEFT_OUT_PACKAGES = (
    "debconf",
    "dpkg",
    "libacl1",
    "libmd0",
    "libpcre2-8-0",
    "libselinux1",
    "openssl",
    "readline-common",
    "tar",
)
KEPT_PATHS = (f"usr/bin/{PYTHON}", "usr/lib/", "usr/share/zoneinfo/", "usr/share/ca-certificates/", "lib/", "lib64/")
DROPPED_PATHS = tuple(
    f"usr/lib/{PYTHON}/{name}/"
    for name in ("distutils", "ensurepip", "idlelib", "lib2to3", "pydoc_data", "test", "tkinter")
)
MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
CERTIFICATES = "usr/share/ca-certificates/mozilla/"
HOME = "opt/trimtab"


class ImageError(Exception):
    """The image cannot be built here."""


class Layer(NamedTuple):
    comment: str
    archive: bytes
    blob: bytes


def main() -> None:
    arguments = argparse.ArgumentParser(description="Build an OCI image of Trimtab.")
    arguments.add_argument("--output", type=Path, default=ROOT / "dist")
    arguments.add_argument("--wheel", type=Path, help="the wheel to install (default: built from this tree)")
    given = arguments.parse_args()
    try:
        for path in build_image(given.output, given.wheel):
            print(f"{path}  {path.stat().st_size / 1e6:.1f} MB")
    except ImageError as error:
        sys.exit(f"make image: {error}")


def build_image(output: Path, wheel: Path | None) -> tuple[Path, Path]:
    """Write the image and its SBOM into the folder and return their paths."""
    check_prerequisites()
    epoch = source_epoch()
    with tempfile.TemporaryDirectory(prefix="trimtab-image-") as scratch:
        work = Path(scratch)
        wheel = wheel or build_wheel(work / "wheel")
        packages = list(debian_packages(work / "debian"))
        pip = bundled_pip(work / "pip")
        locked = ("--require-hashes", "-r", str(ROOT / "requirements" / "core.txt"))
        dependencies = install(pip, work / "dependencies", *locked)
        application = install(pip, work / "application", "--no-deps", str(wheel))
        version = wheel.name.split("-")[1]
        layers = [
            make_layer("Debian: Python and its libraries", base_entries(packages, work / "base"), epoch),
            make_layer("Dependencies", entries_below(dependencies, f"{HOME}/dependencies/"), epoch),
            make_layer("Trimtab", entries_below(application, f"{HOME}/application/"), epoch),
        ]
        output.mkdir(parents=True, exist_ok=True)
        name = f"trimtab-{version}-{MACHINES[platform.machine()]}"
        image, bill = output / f"{name}.oci.tar", output / f"{name}.cdx.json"
        image.write_bytes(oci_archive(layers, version, epoch))
        controls = [package.control for package in packages]
        bill.write_text(bill_of_materials(version, controls, [dependencies, application], epoch))
    return image, bill


def check_prerequisites() -> None:
    if sys.version_info[:2] != (3, 11):
        raise ImageError(
            f"the image has {PYTHON}, whose byte code only {PYTHON} compiles; this is {sys.version.split()[0]}"
        )
    if platform.machine() not in MACHINES:
        raise ImageError(f"there is no image for {platform.machine()}; there is one for {', '.join(MACHINES)}")
    if shutil.which("mmdebstrap") is None:
        raise ImageError("mmdebstrap is missing; on Debian: apt-get install mmdebstrap")


def run(*command: str) -> bytes:
    """The output of a command."""
    completed = subprocess.run(command, cwd=ROOT, capture_output=True, check=False, timeout=900)
    if completed.returncode:
        raise ImageError(f"{Path(command[0]).name} failed:\n{completed.stderr.decode(errors='replace')[-2000:]}")
    return completed.stdout


def build_wheel(target: Path) -> Path:
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(target))
    return next(target.glob("*.whl"))


class DebianPackage(NamedTuple):
    name: str
    control: str
    """The fields of the package, as in dpkg's status file."""
    entries: tuple[Entry, ...]


def debian_packages(work: Path) -> Iterator[DebianPackage]:
    """The packages of the base layer, each with the files that are kept."""
    work.mkdir()
    include = f"--include={','.join(DEBIAN_PACKAGES)}"
    # mmdebstrap finds and verifies the packages; the hook gets their files before it removes them again.
    copy = f'--extract-hook=cp "$1"/var/cache/apt/archives/*.deb {work}'
    run("mmdebstrap", "--quiet", "--variant=extract", include, copy, DEBIAN_RELEASE, "/dev/null")
    for path in sorted(work.glob("*.deb")):
        name = path.name.split("_")[0]
        if name not in LEFT_OUT_PACKAGES:
            control = run("dpkg-deb", "--field", str(path), "Package", "Version", "Architecture").decode()
            archive = run("dpkg-deb", "--fsys-tarfile", str(path))
            yield DebianPackage(name, control, tuple(kept_entries(archive)))


def kept_entries(archive: bytes) -> Iterator[Entry]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as content:
        for member in content:
            name = member.name.removeprefix("./")
            if name.startswith(KEPT_PATHS) and not name.startswith(DROPPED_PATHS):
                yield entry_of(content, member, name)


def base_entries(packages: list[DebianPackage], work: Path) -> Iterator[Entry]:
    """The parts of Debian that Python needs with their byte code, the accounts, and the bundle of certificates."""
    entries = [entry for package in packages for entry in package.entries]
    library = f"usr/lib/{PYTHON}/"
    for entry in entries:
        if entry.name.startswith(library) and entry.name.endswith(".py"):
            (work / entry.name).parent.mkdir(parents=True, exist_ok=True)
            (work / entry.name).write_bytes(entry.content)
    compile_below(work / library, f"/{library}")
    yield from (entry for entry in entries if not entry.name.startswith(CERTIFICATES))
    yield from (found for found in entries_below(work / library, library) if found.name.endswith(".pyc"))
    bundle = b"".join(entry.content for entry in entries if entry.name.startswith(CERTIFICATES))
    yield Entry("etc/ssl/certs/ca-certificates.crt", bundle)
    yield Entry("etc/passwd", f"root:x:0:0::/:/none\ntrimtab:x:{USER}:{USER}::/tmp:/none\n".encode())
    yield Entry("etc/group", f"root:x:0:\ntrimtab:x:{USER}:\n".encode())
    # Scanners of images read the installed packages here.
    yield from (Entry(f"var/lib/dpkg/status.d/{package.name}", package.control.encode()) for package in packages)
    yield from (directory("tmp", 0o1777), directory("dev"), directory("proc"), directory("sys"))


def entry_of(archive: tarfile.TarFile, member: tarfile.TarInfo, name: str) -> Entry:
    if member.isdir():
        return directory(name)
    if member.issym():
        return Entry(name, link=member.linkname, mode=0o777)
    file = archive.extractfile(member)
    if file is None:
        raise ImageError(f"{name} in the base is no file, directory or link")
    return Entry(name, file.read(), member.mode & 0o755)


def bundled_pip(environment: Path) -> tuple[str, ...]:
    """The pip that comes with Python: the environment of this process may have none, or another one."""
    run(sys.executable, "-m", "venv", str(environment))
    return str(environment / "bin" / "python"), "-m", "pip"


def install(pip: tuple[str, ...], target: Path, *what: str) -> Path:
    """Install packages into a folder, with byte code that is never checked against its source."""
    quiet = ("--quiet", "--disable-pip-version-check", "--no-compile")
    run(*pip, "install", *quiet, "--only-binary=:all:", "--target", str(target), *what)
    for leftover in ("bin", *(str(path.relative_to(target)) for path in target.rglob("tests") if path.is_dir())):
        shutil.rmtree(target / leftover, ignore_errors=True)
    for origin in target.glob("*.dist-info/direct_url.json"):
        origin.unlink()  # where the wheel was on this machine
    list_only_present_files(target)
    compile_below(target, f"/{HOME}/{target.name}")
    return target


def list_only_present_files(target: Path) -> None:
    """Remove what was removed from the records of packages, too: checksums of scripts differ with the path of this Python."""
    for record in target.glob("*.dist-info/RECORD"):
        with record.open(newline="", encoding="utf-8") as lines:
            rows = [row for row in csv.reader(lines) if (target / row[0]).exists()]
        with record.open("w", newline="", encoding="utf-8") as lines:
            csv.writer(lines, lineterminator="\n").writerows(rows)


def compile_below(folder: Path, path_in_image: str) -> None:
    """Write byte code with the paths of the image, which tracebacks show."""
    compileall = (sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash")
    run(*compileall, "-s", str(folder), "-p", path_in_image, str(folder))


def make_layer(comment: str, entries: Iterable[Entry], epoch: int) -> Layer:
    archive = tar(entries, epoch)
    return Layer(comment, archive, compress(archive))


def oci_archive(layers: list[Layer], version: str, epoch: int) -> bytes:
    """The image in the layout of the OCI image specification, as one tar archive."""
    blobs: dict[str, bytes] = {}

    def describe(media_type: str, blob: bytes, **more: object) -> dict[str, object]:
        digest = sha256(blob)
        blobs[digest] = blob
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(blob), **more}

    prefix = "application/vnd.oci.image"
    config = describe(f"{prefix}.config.v1+json", encode(image_config(layers, version)))
    descriptions = [describe(f"{prefix}.layer.v1.tar+gzip", layer.blob) for layer in layers]
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{prefix}.manifest.v1+json",
        "config": config,
        "layers": descriptions,
        "annotations": labels(version),
    }
    reference = {"org.opencontainers.image.ref.name": version}
    index = {
        "schemaVersion": 2,
        "mediaType": f"{prefix}.index.v1+json",
        "manifests": [describe(f"{prefix}.manifest.v1+json", encode(manifest), annotations=reference)],
    }
    files = [Entry("oci-layout", encode({"imageLayoutVersion": "1.0.0"})), Entry("index.json", encode(index))]
    files += [Entry(f"blobs/sha256/{digest}", blob) for digest, blob in blobs.items()]
    return tar([directory("blobs"), directory("blobs/sha256"), *files], epoch)


def image_config(layers: list[Layer], version: str) -> dict[str, object]:
    return {
        "architecture": MACHINES[platform.machine()],
        "os": "linux",
        "config": {
            "User": f"{USER}:{USER}",
            "WorkingDir": "/tmp",
            "Entrypoint": [f"/usr/bin/{PYTHON}", "-m", "trimtab"],
            "Cmd": ["--help"],
            "Env": [
                "PATH=/usr/bin",
                f"PYTHONPATH=/{HOME}/application:/{HOME}/dependencies",
                "PYTHONDONTWRITEBYTECODE=1",
                "PYTHONUNBUFFERED=1",
                "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt",
            ],
            "Labels": labels(version),
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{sha256(layer.archive)}" for layer in layers]},
        "history": [{"created_by": "make image", "comment": layer.comment} for layer in layers],
    }


def labels(version: str) -> dict[str, str]:
    return {
        "org.opencontainers.image.title": "trimtab",
        "org.opencontainers.image.version": version,
        "org.opencontainers.image.licenses": "Apache-2.0",
    }


def encode(value: object) -> bytes:
    return json.dumps(value, indent=1, sort_keys=True).encode()


if __name__ == "__main__":
    main()
