"""The software bill of materials of the image, in CycloneDX 1.5: Debian's packages and the Python packages."""

import json
import uuid
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any
from urllib.parse import quote

# The identifier of a bill follows from its content, so that the same content gives the same bytes.
_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "https://trimtab.dev/sbom")


def bill_of_materials(version: str, debian_packages: Iterable[str], folders: Iterable[Path], epoch: int) -> str:
    """The bill of an image with these Debian packages and the Python packages installed in these folders."""
    components = sorted(
        (*debian_components(debian_packages), *python_components(folders)), key=lambda component: str(component["purl"])
    )
    content = json.dumps(components, sort_keys=True)
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(_NAMESPACE, content)}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(epoch, UTC).isoformat().replace("+00:00", "Z"),
            "component": {
                "type": "container",
                "bom-ref": "image",
                "name": "trimtab",
                "version": version,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            },
        },
        "components": components,
        "dependencies": [{"ref": "image", "dependsOn": [component["bom-ref"] for component in components]}],
    }
    return json.dumps(bill, indent=1) + "\n"


def debian_components(packages: Iterable[str]) -> Iterator[dict[str, Any]]:
    """The components of packages, each given by its control fields."""
    for control in packages:
        fields = dict(line.split(": ", 1) for line in control.splitlines())
        name, version = fields["Package"], fields["Version"]
        purl = f"pkg:deb/debian/{name}@{quote(version, safe='')}?arch={fields['Architecture']}"
        yield {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}


def python_components(folders: Iterable[Path]) -> Iterator[dict[str, Any]]:
    for distribution in distributions(path=[str(folder) for folder in folders]):
        name = distribution.metadata["Name"]
        purl = f"pkg:pypi/{name.lower().replace('_', '-')}@{distribution.version}"
        component: dict[str, Any] = {
            "type": "library",
            "bom-ref": purl,
            "name": name,
            "version": distribution.version,
            "purl": purl,
        }
        if licence := licence_of(distribution):
            component["licenses"] = [{"license": {"name": licence}}]
        yield component


def licence_of(distribution: Distribution) -> str:
    """What the package calls its licence: the expression, else the first line of the older free text."""
    metadata = distribution.metadata
    text = metadata.get("License-Expression") or metadata.get("License") or ""
    return text.strip().splitlines()[0][:200] if text.strip() else ""
