"""Objects of every shape are accepted or refused with a reason; none makes a check stumble."""

import asyncio
from typing import Any

import pytest
from schema_objects import Case, definitions, drawn, full

from trimtab.errors import ApiFault
from trimtab.runtime.declarations import learn_everything
from trimtab.server.apiserver import ApiServer, Settings
from trimtab.server.local import LocalClient
from trimtab.server.registry.object_schema import Fitter
from trimtab.server.registry.resources import Catalogue
from trimtab.store.store import Store

DEFINITIONS = list(definitions())
METADATA = {
    "name": "a",
    "namespace": "b",
    "uid": "c",
    "resourceVersion": "7",
    "generation": 2,
    "labels": {"l": "m"},
    "annotations": {"n": "o"},
    "finalizers": ["p.example/q"],
    "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "r", "uid": "s", "controller": True}],
    "creationTimestamp": "2030-01-01T00:00:00Z",
    "deletionTimestamp": "2030-01-01T00:00:00Z",
}


def judged(cases: list[Case]) -> list[ApiFault | None]:
    """The refusal of each case, or None where it is accepted."""

    async def judge() -> list[ApiFault | None]:
        learn_everything()
        server = ApiServer(Store(), Settings())
        await server.start()
        client = LocalClient(server)
        served = {(r.api_version, r.kind): r for r in await client.resources()}
        answers: list[ApiFault | None] = []
        for case in cases:
            try:
                await client.create(served[case.obj["apiVersion"], case.obj["kind"]], case.obj, dry_run=True)
                answers.append(None)
            except ApiFault as fault:
                answers.append(fault)
        await server.stop()
        return answers

    return asyncio.run(judge())


def test_a_full_object_of_every_kind_is_in_order() -> None:
    cases = [case for definition in DEFINITIONS for case in full(definition)]
    refused = [f"{case.said}: {fault}" for case, fault in zip(cases, judged(cases), strict=True) if fault]
    assert not refused, "\n".join(refused)


def test_what_is_written_from_a_type_of_ours_holds_nothing_that_its_schema_does_not_know() -> None:
    """So that a server in the same process need not look for it, when a controller writes."""
    fitter, served = Fitter(), {(one.api_version, one.kind.name): one for one in catalogue_of_everything()}
    for definition in DEFINITIONS:
        for case in full(definition):
            one = served[case.obj["apiVersion"], case.obj["kind"]]
            written = one.kind.encode(one.kind.decode({**case.obj, "metadata": METADATA}))
            assert fitter.read(one, written) == (written, []), case.said


def catalogue_of_everything() -> Catalogue:
    learn_everything()
    return ApiServer(Store(), Settings()).catalogue


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda definition: definition["spec"]["names"]["kind"])
def test_with_one_thing_wrong_it_is_accepted_or_refused_and_nothing_else(definition: dict[str, Any]) -> None:
    codes = {fault.code for fault in judged(list(drawn(definition))) if fault}
    assert codes <= {400, 422}
