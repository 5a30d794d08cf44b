"""Known vulnerabilities are listed, and a database that does not answer is not mistaken for a clean result."""

from pathlib import Path
from typing import Any

import pytest
import vulnerabilities
from archives import ROOT

LOCKED = "jinja2==3.1.3 \\\n    --hash=sha256:0\nmsgspec==0.19.0 ; python_version > '3'\nyarl==1.20.0\n"
ADVISORY = {"id": "CVE-1", "fixed_in": ["3.1.4"], "summary": "a hole", "withdrawn": None}


@pytest.fixture
def requirements(tmp_path: Path) -> Path:
    (tmp_path / "core.txt").write_text(LOCKED)
    return tmp_path / "core.txt"


def test_advisories_are_listed_with_the_version_that_has_none(requirements: Path) -> None:
    def fetch(name: str, version: str) -> dict[str, Any]:
        withdrawn = {**ADVISORY, "withdrawn": "2026-01-01"}
        return {"vulnerabilities": [ADVISORY, withdrawn] if name == "jinja2" else []}

    assert vulnerabilities.report(requirements, fetch).splitlines() == [
        "vulnerabilities: 1 known in 3 of 3 packages checked",
        "  jinja2 3.1.3: CVE-1, fixed in 3.1.4: a hole",
    ]


def test_index_that_does_not_answer_is_reported(requirements: Path) -> None:
    def fetch(name: str, version: str) -> dict[str, Any]:
        raise OSError("no route to host")

    assert "NOT CHECKED" in vulnerabilities.report(requirements, fetch)


def test_single_packages_that_were_not_checked_are_named(requirements: Path) -> None:
    def fetch(name: str, version: str) -> dict[str, Any]:
        if name == "yarl":
            raise ValueError("not JSON")
        return {}

    assert vulnerabilities.report(requirements, fetch).splitlines() == [
        "vulnerabilities: 0 known in 2 of 3 packages checked",
        "  NOT CHECKED: yarl",
    ]


def test_every_locked_package_is_found() -> None:
    text = (ROOT / "requirements" / "core.txt").read_text()
    assert len(vulnerabilities.pinned_versions(ROOT / "requirements" / "core.txt")) == text.count("==") > 10


def test_address_of_the_index_is_known_without_an_installed_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vulnerabilities.importlib.util, "find_spec", lambda _: None)
    monkeypatch.setattr(vulnerabilities.sys, "path", [*vulnerabilities.sys.path])
    assert vulnerabilities.index_address().startswith("https://")
