"""The functions that scripts import with `require("kube")`."""

from collections.abc import Callable
from typing import Any

from trimtab.api.quantity import InvalidQuantity, add_quantities, parse_quantity
from trimtab.interpret.podspec import pod_dependencies, replica_requirements

CallResult = tuple[bool, Any]
"""Whether the call succeeded, and its result or error message; a Python exception must never reach a script."""


class InvalidCall(Exception):
    """A script called a function of the library with wrong arguments; the message is for its author."""


def _require_arguments(count: int, given: tuple[Any, ...], expected: int, name: str) -> tuple[Any, ...]:
    if count != expected:
        raise InvalidCall(f"{name} takes {expected} argument{'s' if expected > 1 else ''}, not {count}")
    return (*given, *[None] * expected)[:expected]


def _require_table(value: Any) -> dict[str, Any]:
    if value == []:
        return {}
    if not isinstance(value, dict):
        raise InvalidCall("a pod template (a table) is needed")
    return value


def _resource_add(count: int, *given: Any) -> str:
    if any(not isinstance(quantity, str | None) for quantity in given):
        raise InvalidCall("quantities are strings or nil")
    return add_quantities([quantity for quantity in given if quantity is not None])


def _accurate_pod_requirements(count: int, *given: Any) -> Any:
    (template,) = _require_arguments(count, given, 1, "accuratePodRequirements")
    return replica_requirements(_require_table(template))


def _get_pod_dependencies(count: int, *given: Any) -> Any:
    template, namespace = _require_arguments(count, given, 2, "getPodDependencies")
    if namespace is not None and not isinstance(namespace, str | int | float):
        raise InvalidCall("the namespace is a string or nil")
    return pod_dependencies(_require_table(template), "default" if namespace is None else str(namespace))


def _get_resource_quantity(count: int, *given: Any) -> float:
    (quantity,) = _require_arguments(count, given, 1, "getResourceQuantity")
    if not isinstance(quantity, str):
        raise InvalidCall("a quantity is a string")
    amount = parse_quantity(quantity)
    if amount < 0:
        raise InvalidCall(f"the quantity {quantity} is negative")
    return float(amount)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "resourceAdd": _resource_add,
    "accuratePodRequirements": _accurate_pod_requirements,
    "getPodDependencies": _get_pod_dependencies,
    "getResourceQuantity": _get_resource_quantity,
}


def call_function(name: str, count: int, given: tuple[Any, ...]) -> CallResult:
    """Call one function of the library with plain values."""
    try:
        return True, FUNCTIONS[name](count, *given)
    except (InvalidCall, InvalidQuantity, OverflowError) as error:
        return False, str(error)
