"""Known vulnerabilities of the locked dependencies, from the package index.

The index of pip answers for every version with the advisories that are known for it. A mirror may not: then the result says that
nothing was checked, because silence would look like a clean result.
"""

import ensurepip
import importlib
import importlib.util
import json
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

PINNED = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s;\\]+)", re.MULTILINE)
TIMEOUT_SECONDS = 20
MAX_BYTES = 16 * 1024 * 1024
Fetch = Callable[[str, str], dict[str, Any]]
"""The document about a version of a package; raises OSError or ValueError when the index has none."""


class Advisory(NamedTuple):
    """One known vulnerability."""

    package: str
    id: str
    fixed_in: tuple[str, ...]
    summary: str


def pinned_versions(requirements: Path) -> list[tuple[str, str]]:
    return [(found["name"], found["version"]) for found in PINNED.finditer(requirements.read_text(encoding="utf-8"))]


def index_address() -> str:
    """The address of the package index, which only pip knows; where none is installed, the one that comes with Python."""
    if importlib.util.find_spec("pip") is None:
        bundled = sorted(Path(ensurepip.__file__).parent.glob("_bundled/pip-*.whl"))
        if not bundled:
            raise OSError("there is no pip, which knows the address of the package index")
        sys.path.append(str(bundled[0]))
    return str(importlib.import_module("pip._internal.models.index").PyPI.pypi_url)


def fetch_from_index(name: str, version: str) -> dict[str, Any]:
    address = f"{index_address()}/{name}/{version}/json"
    with urllib.request.urlopen(address, timeout=TIMEOUT_SECONDS) as answer:
        return dict(json.loads(answer.read(MAX_BYTES)))


def advisories_of(name: str, version: str, fetch: Fetch) -> Iterator[Advisory]:
    for one in fetch(name, version).get("vulnerabilities") or ():
        if not one.get("withdrawn"):
            summary = one.get("summary") or str(one.get("details") or "").partition("\n")[0]
            yield Advisory(f"{name} {version}", one["id"], tuple(one.get("fixed_in") or ()), summary[:120])


def report(requirements: Path, fetch: Fetch = fetch_from_index) -> str:
    """The advisories as text; or why some or all of the packages were not checked."""
    found: list[Advisory] = []
    unchecked: list[str] = []
    pinned = pinned_versions(requirements)
    for name, version in pinned:
        try:
            found += advisories_of(name, version, fetch)
        except (OSError, ValueError) as error:
            unchecked.append(name)
            reason = str(error)
            if len(unchecked) == 3 and not found:  # the index does not answer: do not wait for every package
                return f"vulnerabilities: NOT CHECKED, the package index gives no advisories ({reason})"
    lines = [f"vulnerabilities: {len(found)} known in {len(pinned) - len(unchecked)} of {len(pinned)} packages checked"]
    lines += [
        f"  {one.package}: {one.id}, fixed in {', '.join(one.fixed_in) or 'no version'}: {one.summary}" for one in found
    ]
    if unchecked:
        lines.append(f"  NOT CHECKED: {', '.join(unchecked)}")
    return "\n".join(lines)
