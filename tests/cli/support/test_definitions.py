"""Definitions that would drop fields are found before anything is written."""

import asyncio
import copy
from typing import Any, cast

import pytest

from trimtab.api.kind import kind_of
from trimtab.api.kinds.work import ResourceBinding
from trimtab.api.schema.from_types import crd
from trimtab.cli.support.definitions import check_definitions, missing_fields
from trimtab.client.client import Client, Resource
from trimtab.errors import Forbidden, InputError, NotFound

BINDINGS = kind_of(ResourceBinding)


def without_holds() -> dict[str, Any]:
    """The definition as Karmada has it, in this respect."""
    definition = copy.deepcopy(crd(BINDINGS))
    for version in definition["spec"]["versions"]:
        version["schema"]["openAPIV3Schema"]["properties"].get("status", {"properties": {}})["properties"].pop(
            "holds", None
        )
    return definition


class Definitions:
    """An API server with these definitions, which fails first if asked to."""

    def __init__(self, found: dict[str, Any], *faults: Exception) -> None:
        self._found = found
        self._faults = list(faults)

    async def get(self, resource: Resource, namespace: str, name: str) -> dict[str, Any]:
        if self._faults:
            raise self._faults.pop(0)
        if name not in self._found:
            raise NotFound(name)
        return cast("dict[str, Any]", self._found[name])


def check(server: Definitions) -> None:
    asyncio.run(check_definitions(cast("Client", server), [BINDINGS]))


def test_missing_fields_are_named_by_their_paths() -> None:
    own = crd(BINDINGS)
    assert missing_fields(own, own) == []
    assert missing_fields(own, without_holds()) == ["status.holds"]
    nested = copy.deepcopy(own)
    status = nested["spec"]["versions"][-1]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
    del status["aggregatedStatus"]["items"]["properties"]["health"]
    assert missing_fields(own, nested) == ["status.aggregatedStatus.health"]
    status["aggregatedStatus"] = {"x-kubernetes-preserve-unknown-fields": True}
    assert missing_fields(own, nested) == []
    nested["spec"]["versions"][-1]["served"] = False
    assert missing_fields(own, nested) == [f"version {BINDINGS.version}"]


def test_controllers_do_not_start_where_holds_would_be_lost() -> None:
    server = Definitions({BINDINGS.id: without_holds()})
    with pytest.raises(InputError, match=r"resourcebindings.work.karmada.io lacks status.holds.*trimtab-crds"):
        check(server)


@pytest.mark.parametrize("fault", [OSError("refused"), TimeoutError()])
def test_check_waits_for_an_api_server_that_does_not_answer(fault: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trimtab.cli.support.definitions.RETRY_SECONDS", 0)
    with pytest.raises(InputError):
        check(Definitions({BINDINGS.id: without_holds()}, fault))


def test_user_who_may_not_read_definitions_is_not_stopped() -> None:
    check(Definitions({BINDINGS.id: without_holds()}, Forbidden("no")))
