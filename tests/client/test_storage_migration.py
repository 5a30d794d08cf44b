"""Objects are stored in the current version, and old versions can be removed."""

from typing import Any

import pytest

from trimtab.client.client import Listing, Resource
from trimtab.client.storage_migration import migrate, old_versions
from trimtab.clock import run_virtually
from trimtab.errors import Conflict, NotFound

DEFINITION = {
    "metadata": {"name": "widgets.example.com", "resourceVersion": "7"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [{"name": "v1alpha1", "storage": False}, {"name": "v1beta1", "storage": True}],
    },
    "status": {"storedVersions": ["v1alpha1", "v1beta1"]},
}


class FakeServer:
    """Records the writes; `faults` are raised for objects by name."""

    def __init__(self, **faults: Exception) -> None:
        self._faults = faults
        self.writes: list[Any] = []

    async def list(self, resource: Resource) -> Listing:
        assert resource.version == "v1beta1"
        return Listing([{"metadata": {"name": name, "namespace": "a"}} for name in ("one", "two", "three")], "9")

    async def replace(self, _: Resource, obj: dict[str, Any], **__: Any) -> None:
        if fault := self._faults.get(obj["metadata"]["name"]):
            raise fault
        self.writes.append(obj["metadata"]["name"])

    async def patch(self, _: Resource, __: str, name: str, patch: Any, *, subresource: str, manager: str) -> None:
        assert (subresource, manager) == ("status", "trimtab-migration")
        self.writes.append((name, patch))


def test_every_object_is_written_before_the_old_version_is_dropped() -> None:
    server = FakeServer(two=Conflict("changed"), three=NotFound("gone"))
    done = run_virtually(migrate(server, DEFINITION))  # type: ignore[arg-type]
    assert done == ("widgets.example.com", ("v1alpha1",), 2)
    trimmed = {"metadata": {"resourceVersion": "7"}, "status": {"storedVersions": ["v1beta1"]}}
    assert server.writes == ["one", ("widgets.example.com", trimmed)]


def test_failed_write_keeps_the_old_version() -> None:
    server = FakeServer(three=OSError("cut off"))
    with pytest.raises(OSError, match="cut off"):
        run_virtually(migrate(server, DEFINITION))  # type: ignore[arg-type]
    assert server.writes == ["one", "two"]


def test_current_version_is_not_old() -> None:
    assert old_versions({**DEFINITION, "status": {"storedVersions": ["v1beta1"]}}) == ()
    assert old_versions({**DEFINITION, "status": None}) == ()
