"""What the forms of the pages do: writes to the API with the credentials of the user."""

from collections.abc import Awaitable, Callable, Sequence

from trimtab.client.client import Client
from trimtab.console.page import PageContext
from trimtab.errors import ApiError, NotFound
from trimtab.registry import Registry

Form = list[tuple[str, str]]
ConsoleAction = Callable[[PageContext, Client, Form], Awaitable[str]]
"""Carries out a form; returns where to go then."""
FIELD_MANAGER = "trimtab-console"


class ActionError(ApiError):
    """What a person asked for cannot be done; the message says why."""

    code = 422


class PlanChanged(ActionError):
    """The fleet has changed since the plan was made; nothing was written."""

    code = 409

    def __init__(self, location: str, differences: Sequence[str]) -> None:
        super().__init__("the fleet has changed since the plan was made: " + ("; ".join(differences) or "plan again"))
        self.location = location
        """The page with the new plan."""
        self.differences = list(differences)


class RegisteredAction:
    """An action and its address."""

    def __init__(self, path: tuple[str, ...], run: ConsoleAction) -> None:
        self.path = path
        self.run = run


console_actions: Registry[RegisteredAction] = Registry("console action")


def action(path: str) -> Callable[[ConsoleAction], ConsoleAction]:
    """Register a function as the action of the forms that are sent to this address."""

    def register(run: ConsoleAction) -> ConsoleAction:
        console_actions.add(path, RegisteredAction(tuple(path.split("/")), run))
        return run

    return register


def find_action(segments: tuple[str, ...]) -> tuple[ConsoleAction, tuple[str, ...]]:
    for one in console_actions.values():
        if len(one.path) == len(segments) and all(
            part.startswith("{") or part == given for part, given in zip(one.path, segments, strict=True)
        ):
            return one.run, tuple(g for part, g in zip(one.path, segments, strict=True) if part.startswith("{"))
    raise NotFound("there is no such action")


def value_of(form: Form, name: str) -> str:
    """The last value of a field."""
    return dict(form).get(name, "").strip()


def check_typed_name(form: Form, name: str) -> None:
    """A dangerous action needs the name of its object, typed by the user."""
    if value_of(form, "confirm") != name:
        raise ActionError(f"type the name {name} to confirm")
