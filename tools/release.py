"""`make release`: writes wheel, sdist, image, SBOM, kubectl plugin, charts, manifests and checksums into dist/.

The same commit, lock file and Debian packages give the same bytes: every archive has sorted names and the time of the commit.
"""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

import vulnerabilities
import yaml
from archives import ROOT, compress, entries_below, sha256, source_epoch, tar
from image import ImageError, build_image
from plugin import write_plugin

from trimtab import __version__

DOWNLOAD_URL = f"https://releases.example.com/trimtab/v{__version__}"
CHARTS = ("trimtab", "trimtab-crds", "trimtab-agent")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=ROOT / "dist")
    parser.add_argument(
        "--skip-image", action="store_true", help="leave out the image, its SBOM and the kubectl plugin"
    )
    parser.add_argument(
        "--download-url", default=DOWNLOAD_URL, help="where the files of the release will be, for the manifest of krew"
    )
    given = parser.parse_args()
    os.environ.setdefault("SOURCE_DATE_EPOCH", str(source_epoch()))
    try:
        check_versions()
        shutil.rmtree(given.output, ignore_errors=True)
        given.output.mkdir(parents=True)
        wheel = build_python_packages(given.output)
        for chart in CHARTS:
            write_chart(chart, given.output)
        (given.output / f"trimtab-crds-{__version__}.yaml").write_text(crds())
        write_notes(given.output)
        if given.skip_image:
            print("the image, its SBOM and the kubectl plugin are left out, as asked")
        else:
            image, _ = build_image(given.output, wheel)
            write_plugin(image, __version__, given.output, given.download_url)
    except ImageError as error:
        sys.exit(f"make release: {error}")
    write_checksums(given.output)
    print((given.output / "SHA256SUMS").read_text(), end="")
    print(vulnerabilities.report(ROOT / "requirements" / "core.txt"))


def check_versions() -> None:
    """Package and charts are released together, with one version."""
    for chart in CHARTS:
        about = yaml.safe_load((ROOT / "charts" / chart / "Chart.yaml").read_text())
        if {about["version"], about["appVersion"]} != {__version__}:
            raise ImageError(f"charts/{chart}/Chart.yaml does not have the version {__version__} of the package")


def build_python_packages(output: Path) -> Path:
    """Build sdist and wheel; returns the wheel."""
    completed = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(output)], cwd=ROOT, capture_output=True, check=False
    )
    if completed.returncode:
        raise ImageError(f"the package cannot be built:\n{completed.stderr.decode(errors='replace')[-2000:]}")
    return next(output.glob("*.whl"))


def write_chart(name: str, output: Path) -> None:
    """Write a chart as `helm package` does."""
    content = tar(entries_below(ROOT / "charts" / name, f"{name}/"), source_epoch())
    (output / "charts").mkdir(exist_ok=True)
    (output / "charts" / f"{name}-{__version__}.tgz").write_bytes(compress(content))


def crds() -> str:
    command = [sys.executable, "-m", "trimtab", "crds"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def write_notes(output: Path) -> None:
    """The newest section of the changelog."""
    sections = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").split("\n## ")
    (output / "RELEASE_NOTES.md").write_text(f"## {sections[1].rstrip()}\n", encoding="utf-8")


def write_checksums(output: Path) -> None:
    paths = sorted(path for path in output.rglob("*") if path.is_file())
    lines = [f"{sha256(path.read_bytes())}  {path.relative_to(output)}\n" for path in paths]
    (output / "SHA256SUMS").write_text("".join(lines))


if __name__ == "__main__":
    main()
