"""A forwarding client passes every request of the protocol, with all of its arguments, to the other client."""

import asyncio
import inspect
from typing import Any, cast

import pytest

from trimtab.client.client import Client, Resource
from trimtab.client.forwarding import ForwardingClient

PODS = Resource("", "v1", "pods", "Pod")
METHODS = {
    name: method for name, method in vars(Client).items() if inspect.isfunction(method) and not name.startswith("_")
}


class RecordingClient:
    """Keeps the last call, and returns its name."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []


def recorder(name: str, *, is_coroutine: bool) -> Any:
    signature = inspect.signature(METHODS[name])

    def note(client: RecordingClient, *args: Any, **options: Any) -> str:
        bound = signature.bind(client, *args, **options)
        client.calls.append((name, {key: value for key, value in bound.arguments.items() if key != "self"}))
        return name

    async def note_later(client: RecordingClient, *args: Any, **options: Any) -> str:
        return note(client, *args, **options)

    return note_later if is_coroutine else note


for method_name, declared in METHODS.items():
    setattr(RecordingClient, method_name, recorder(method_name, is_coroutine=inspect.iscoroutinefunction(declared)))


@pytest.mark.parametrize("name", METHODS)
def test_every_request_is_passed_on_with_all_of_its_arguments(name: str) -> None:
    inner = RecordingClient()
    client = ForwardingClient(cast("Client", inner))
    parameters = list(inspect.signature(METHODS[name]).parameters.values())[1:]
    given = {parameter.name: f"the {parameter.name}" for parameter in parameters}
    answer = getattr(client, name)(**given)
    if inspect.isawaitable(answer):
        answer = asyncio.run(cast("Any", answer))
    assert inner.calls == [(name, given)]
    assert answer == (None if METHODS[name].__annotations__["return"] is None else name)
