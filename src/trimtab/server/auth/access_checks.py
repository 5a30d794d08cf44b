"""The variable `authorizer` of CEL expressions: whether the user of a request, or a service account, may do something.

Its values are maps that say what is asked; `check` answers for the request whose expressions are evaluated in this thread. Field
and label selectors do not change an answer of RBAC. `reason` and `error` are empty, because RBAC gives no reasons here.
"""

import asyncio
import threading
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from trimtab.api.value import Raw
from trimtab.interpret.cel.library import Overload
from trimtab.server.auth.authorize import Action, Authorizer
from trimtab.server.auth.user import AUTHENTICATED, User

VARIABLE = "authorizer"
VARIABLE_TYPES = {VARIABLE: "Authorizer", f"{VARIABLE}.requestResource": "ResourceCheck"}
MAX_CHECKS = 2
"""In one evaluation: each costs 350,000 of the million units that Kubernetes grants an expression."""
_RESOURCE_FIELDS = ("group", "resource", "subresource", "namespace", "name")


class AccessChecks:
    """What the expressions about one request may ask; made in the event loop, and usable in other threads."""

    def __init__(self, authorizer: Authorizer, user: User, request: Action) -> None:
        self._authorizer = authorizer
        self._user = user
        self._request = request
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._remaining = MAX_CHECKS

    def variables(self) -> dict[str, Raw]:
        """The values of `VARIABLE_TYPES`."""
        asked = {field: getattr(self._request, field) for field in _RESOURCE_FIELDS}
        return {VARIABLE: {"account": ""}, f"{VARIABLE}.requestResource": {"account": "", **asked}}

    def evaluate(self, program: Any, variables: Mapping[str, Any]) -> Any:
        """Evaluate a program that may ask for decisions."""
        self._remaining = MAX_CHECKS
        token = _active.set(self)
        try:
            return program.eval(data={**variables, **self.variables()})
        finally:
            _active.reset(token)

    def allows(self, account: str, action: Action) -> bool:
        if self._remaining == 0:
            raise RuntimeError("operation cancelled: actual cost limit exceeded")
        self._remaining -= 1
        user = _account_user(account) if account else self._user
        if threading.get_ident() == self._thread:
            return self._authorizer.allows(user, action)
        # The caches of the authorizer belong to the event loop.
        return asyncio.run_coroutine_threadsafe(self._decide(user, action), self._loop).result()

    async def _decide(self, user: User, action: Action) -> bool:
        return self._authorizer.allows(user, action)


_active: ContextVar[AccessChecks] = ContextVar("access checks")


def evaluate_program(program: Any, variables: Mapping[str, Any]) -> Any:
    """Evaluate a program; its variable `authorizer`, if any, has the checks of the request."""
    plain = {name: value for name, value in variables.items() if name != VARIABLE}
    checks = variables.get(VARIABLE)
    return checks.evaluate(program, plain) if isinstance(checks, AccessChecks) else program.eval(data=plain)


def _account_user(account: str) -> User:
    namespace = account.partition(":")[0]
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED)
    return User(f"system:serviceaccount:{account}", groups)


def authorizer_overloads() -> list[Overload]:
    """The functions of Kubernetes' authorizer library."""
    setters = [
        Overload(field, ("ResourceCheck", "string"), "ResourceCheck", _setter(field), member=True)
        for field in ("subresource", "namespace", "name", "fieldSelector", "labelSelector")
    ]
    return [
        Overload("serviceAccount", ("Authorizer", "string", "string"), "Authorizer", _service_account, member=True),
        Overload("path", ("Authorizer", "string"), "PathCheck", _setter("path"), member=True),
        Overload("group", ("Authorizer", "string"), "GroupCheck", _setter("group"), member=True),
        Overload("resource", ("GroupCheck", "string"), "ResourceCheck", _setter("resource"), member=True),
        *setters,
        Overload("check", ("PathCheck", "string"), "Decision", _check, member=True),
        Overload("check", ("ResourceCheck", "string"), "Decision", _check, member=True),
        Overload("allowed", ("Decision",), "bool", _is_allowed, member=True),
        Overload("errored", ("Decision",), "bool", lambda _: False, member=True),
        Overload("reason", ("Decision",), "string", lambda _: "", member=True),
        Overload("error", ("Decision",), "string", lambda _: "", member=True),
    ]


def _setter(field: str) -> Any:
    return lambda asked, value: {**asked, field: value}


def _service_account(asked: Raw, namespace: str, name: str) -> Raw:
    return {**asked, "account": f"{namespace}:{name}"}


def _check(asked: Raw, verb: str) -> Raw:
    if "path" in asked:
        action = Action(verb.lower(), path=asked["path"])
    else:
        action = Action(verb, **{field: asked.get(field, "") for field in _RESOURCE_FIELDS})
    return {"allowed": _active.get().allows(asked["account"], action)}


def _is_allowed(decision: Raw) -> bool:
    return bool(decision["allowed"])
