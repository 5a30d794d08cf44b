"""`matchConditions` of webhooks: CEL expressions that say for which requests a webhook is called.

As in Kubernetes: a webhook is skipped when one of its conditions is false. When none is false and one cannot be evaluated, its
failurePolicy decides: `Fail` refuses the request without a call, `Ignore` skips the webhook. The variables are `object`, `oldObject`,
`request` and `authorizer`.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from trimtab.api.field_errors import invalid
from trimtab.api.kinds.native.rules.match_rules import MAX_CONDITIONS, check_conditions
from trimtab.api.schema.structural import CelError
from trimtab.api.value import Raw
from trimtab.errors import Cause
from trimtab.server import api_errors
from trimtab.server.admission.chain import Attributes
from trimtab.server.admission.dynamic.admission_reviews import VERSIONS, admission_review
from trimtab.server.auth.access_checks import AccessChecks
from trimtab.server.auth.authorize import Action, Authorizer

VARIABLES = ("object", "oldObject", "request", "authorizer")


class ConditionEvaluator(Protocol):
    """Evaluates expressions over `VARIABLES`."""

    def evaluate(self, expression: str, variables: Mapping[str, Any]) -> Any:
        """The value of an expression; raises `CelError`."""
        ...

    def compile_error(self, expression: str, is_condition: bool) -> str:
        """Why an expression cannot be used; empty when it can."""
        ...


def condition_validator(compile_error: Callable[[str, bool], str]) -> Callable[[Raw, Raw | None], list[Cause]]:
    """A function that tells what is wrong with the conditions of a webhook configuration."""

    def condition_causes(obj: Raw, old: Raw | None) -> list[Cause]:
        if old is not None and old.get("webhooks") == obj.get("webhooks"):
            return []
        return [
            cause
            for index, hook in enumerate(obj.get("webhooks") or ())
            for cause in _hook_causes(hook, f"webhooks[{index}].matchConditions", compile_error)
        ]

    return condition_causes


def _hook_causes(hook: Raw, field: str, compile_error: Callable[[str, bool], str]) -> Iterator[Cause]:
    conditions = hook.get("matchConditions") or ()
    yield from check_conditions(conditions, field)
    for index, condition in enumerate(conditions[:MAX_CONDITIONS]):
        expression = condition.get("expression") or ""
        if expression.strip() and (why := compile_error(expression, True)):
            yield invalid(f"{field}[{index}].expression", expression, why)


def checks_for(authorizer: Authorizer, attributes: Attributes) -> AccessChecks:
    """What expressions may ask about the user of a request."""
    where = attributes.where
    served = where.served
    request = Action("", served.group, served.resource, where.subresource, where.namespace, where.name)
    return AccessChecks(authorizer, attributes.caller.user, request)


def should_call(
    evaluator: ConditionEvaluator,
    spec: Raw,
    attributes: Attributes,
    checks: AccessChecks,
    obj: Raw | None,
    old: Raw | None,
) -> bool:
    """Whether the conditions of a webhook hold for a request; raises Forbidden when that cannot be told."""
    conditions = spec.get("matchConditions")
    if not conditions:
        return True
    request = admission_review(attributes, None, None, VERSIONS[0])["request"]
    variables = {"object": obj, "oldObject": old, "request": request, "authorizer": checks}
    errors: list[str] = []
    for condition in conditions:
        try:
            if evaluator.evaluate(condition["expression"], variables) is False:
                return False
        except CelError as error:
            errors.append(f"expression '{condition['expression']}' resulted in error: {error}")
    if not errors:
        return True
    if spec.get("failurePolicy", "Fail") == "Ignore":
        return False
    where = attributes.where
    raise api_errors.forbidden(where.served.resource, where.served.group, where.name, "; ".join(errors))
