"""The bill of materials lists Debian's and Python's packages once each, with package URLs."""

import json
from pathlib import Path

from sbom import bill_of_materials

PACKAGE = "Package: libssl3\nVersion: 3.0.1-1+deb12u2\nArchitecture: amd64\n"


def installed(folder: Path, name: str, version: str, licence: str) -> Path:
    metadata = folder / f"{name}-{version}.dist-info" / "METADATA"
    metadata.parent.mkdir(parents=True)
    metadata.write_text(f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\nLicense-Expression: {licence}\n")
    return folder


def test_components_of_both_kinds_are_listed(tmp_path: Path) -> None:
    bill = json.loads(bill_of_materials("1.0", [PACKAGE], [installed(tmp_path, "Some_Package", "2.1", "MIT")], 0))
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    assert [component["purl"] for component in bill["components"]] == [
        "pkg:deb/debian/libssl3@3.0.1-1%2Bdeb12u2?arch=amd64",
        "pkg:pypi/some-package@2.1",
    ]
    assert bill["components"][1]["licenses"] == [{"license": {"name": "MIT"}}]
    assert bill["dependencies"][0]["dependsOn"] == [component["bom-ref"] for component in bill["components"]]


def test_same_content_gives_the_same_bill(tmp_path: Path) -> None:
    folder = installed(tmp_path, "x", "1", "MIT")
    assert bill_of_materials("1.0", [PACKAGE], [folder], 0) == bill_of_materials("1.0", [PACKAGE], [folder], 0)
