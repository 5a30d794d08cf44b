"""What kube-apiserver rejects in ValidatingAdmissionPolicies and their bindings."""

from collections.abc import Iterator, Sequence

from trimtab.api.field_errors import invalid, not_supported, required
from trimtab.api.paths import object_at
from trimtab.api.value import Raw
from trimtab.errors import Cause

ACTIONS = ("Audit", "Deny", "Warn")
_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized")


def check_policy(new: Raw, old: Raw | None) -> Sequence[Cause]:
    spec = object_at(new, "spec")
    found: list[Cause] = []
    if not spec.get("validations") and not spec.get("auditAnnotations"):
        text = "validations or auditAnnotations must be specified"
        found += [required("spec.validations", text), required("spec.auditAnnotations", text)]
    if not (spec.get("matchConstraints") or {}).get("resourceRules"):
        found.append(required("spec.matchConstraints.resourceRules"))
    if (policy := spec.get("failurePolicy")) not in (None, "Fail", "Ignore"):
        found.append(not_supported("spec.failurePolicy", policy, ("Fail", "Ignore")))
    kind = spec.get("paramKind")
    if kind is not None:
        found += [required(f"spec.paramKind.{field}") for field in ("apiVersion", "kind") if not kind.get(field)]
    found += _check_validations(spec.get("validations") or ())
    for number, variable in enumerate(spec.get("variables") or ()):
        if not str(variable.get("name") or "").isidentifier():
            text = "name is not a valid CEL identifier"
            found.append(invalid(f"spec.variables[{number}].name", variable.get("name", ""), text))
    return found


def _check_validations(validations: Sequence[Raw]) -> Iterator[Cause]:
    for number, validation in enumerate(validations):
        if not str(validation.get("expression") or "").strip():
            yield required(f"spec.validations[{number}].expression", "expression is not specified")
        if (reason := validation.get("reason")) not in (None, *_REASONS):
            yield not_supported(f"spec.validations[{number}].reason", reason, _REASONS)


def check_binding(new: Raw, old: Raw | None) -> Sequence[Cause]:
    spec = object_at(new, "spec")
    found: list[Cause] = []
    if not spec.get("policyName"):
        found.append(required("spec.policyName"))
    actions = spec.get("validationActions") or ()
    if not actions:
        found.append(required("spec.validationActions", "at least one validation action is required"))
    for number, action in enumerate(actions):
        if action not in ACTIONS:
            found.append(not_supported(f"spec.validationActions[{number}]", action, ACTIONS))
    if {"Deny", "Warn"} <= set(actions):
        text = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)"
        found.append(invalid("spec.validationActions", list(actions), text))
    reference = spec.get("paramRef")
    if reference is not None:
        if bool(reference.get("name")) == bool(reference.get("selector") is not None):
            found.append(required("spec.paramRef", "one of name or selector must be specified"))
        if not reference.get("parameterNotFoundAction"):
            found.append(required("spec.paramRef.parameterNotFoundAction"))
    return found
