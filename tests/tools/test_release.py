"""A release has one version, and its checksums cover every file."""

import hashlib
import tarfile
from pathlib import Path

import release
import yaml

from trimtab import __version__


def test_charts_have_the_version_of_the_package() -> None:
    release.check_versions()


def test_chart_archive_has_the_layout_of_helm(tmp_path: Path) -> None:
    release.write_chart("trimtab", tmp_path)
    with tarfile.open(tmp_path / "charts" / f"trimtab-{__version__}.tgz") as archive:
        names = archive.getnames()
        about = yaml.safe_load(archive.extractfile("trimtab/Chart.yaml").read())
    assert about["version"] == __version__
    assert {"trimtab/values.yaml", "trimtab/values.schema.json", "trimtab/templates/deployment.yaml"} <= set(names)


def test_checksums_cover_every_file(tmp_path: Path) -> None:
    (tmp_path / "charts").mkdir()
    (tmp_path / "charts" / "b.tgz").write_bytes(b"b")
    (tmp_path / "a.whl").write_bytes(b"a")
    release.write_checksums(tmp_path)
    lines = dict(line.split("  ")[::-1] for line in (tmp_path / "SHA256SUMS").read_text().splitlines())
    assert lines == {
        "a.whl": hashlib.sha256(b"a").hexdigest(),
        "charts/b.tgz": hashlib.sha256(b"b").hexdigest(),
    }


def test_release_notes_are_the_newest_section_of_the_changelog(tmp_path: Path) -> None:
    release.write_notes(tmp_path)
    notes = (tmp_path / "RELEASE_NOTES.md").read_text()
    assert notes.startswith("## ")
    assert notes.count("\n## ") == 0
