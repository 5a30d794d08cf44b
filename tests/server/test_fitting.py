"""Objects of every shape are accepted or refused with a reason; none makes a check stumble."""

import asyncio
from typing import Any

import pytest

from drawing import Case, definitions, drawn, full
from trimtab.app import learn_everything
from trimtab.errors import ApiFault
from trimtab.server.assembly import ApiServer, Settings
from trimtab.server.local import LocalClient
from trimtab.store.log import Store

DEFINITIONS = list(definitions())


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


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda definition: definition["spec"]["names"]["kind"])
def test_with_one_thing_wrong_it_is_accepted_or_refused_and_nothing_else(definition: dict[str, Any]) -> None:
    codes = {fault.code for fault in judged(list(drawn(definition))) if fault}
    assert codes <= {400, 422}
