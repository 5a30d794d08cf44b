"""What kube-apiserver rejects in ValidatingAdmissionPolicies and their bindings."""

from collections.abc import Iterator, Sequence

from trimtab.api.field_errors import duplicate, forbidden, invalid, not_supported, required
from trimtab.api.kinds.native.rules import common
from trimtab.api.kinds.native.rules.match_rules import check_conditions, check_match_policy, check_rule
from trimtab.api.names import qualified_name_faults
from trimtab.api.paths import object_at
from trimtab.api.value import Raw
from trimtab.errors import Cause

ACTIONS = ("Audit", "Deny", "Warn")
_NOT_FOUND_ACTIONS = ("Deny", "Allow")
_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized")


def check_policy(new: Raw, old: Raw | None) -> Sequence[Cause]:
    spec = object_at(new, "spec")
    if old is not None and object_at(old, "spec") == spec:
        return ()
    found: list[Cause] = []
    if not spec.get("validations") and not spec.get("auditAnnotations"):
        text = "validations or auditAnnotations must contain at least one item"
        found += [required("spec.validations", text), required("spec.auditAnnotations", text)]
    if (policy := spec.get("failurePolicy")) not in (None, "Fail", "Ignore"):
        found.append(not_supported("spec.failurePolicy", policy, ("Fail", "Ignore")))
    if spec.get("paramKind") is not None:
        found += _check_param_kind(spec["paramKind"])
    found += _check_match_resources(object_at(spec, "matchConstraints"), "spec.matchConstraints")
    found += check_conditions(spec.get("matchConditions") or (), "spec.matchConditions")
    found += _check_variables(spec.get("variables") or ())
    found += _check_validations(spec.get("validations") or ())
    found += _check_annotations(spec.get("auditAnnotations") or (), object_at(new, "metadata").get("name") or "")
    return found


def _check_param_kind(kind: Raw) -> Iterator[Cause]:
    version = kind.get("apiVersion") or ""
    if not version:
        yield required("spec.paramKind.apiVersion")
    elif version.count("/") > 1:
        yield invalid("spec.paramKind.apiVersion", version, f"unexpected GroupVersion string: {version}")
    if not kind.get("kind"):
        yield required("spec.paramKind.kind")


def _check_match_resources(match: Raw, field: str, *, needs_rules: bool = True) -> Iterator[Cause]:
    if needs_rules and not match.get("resourceRules"):
        yield required(f"{field}.resourceRules")
    yield from check_match_policy(match.get("matchPolicy"), f"{field}.matchPolicy")
    for name in ("namespaceSelector", "objectSelector"):
        yield from common.check_selector(match.get(name), f"{field}.{name}")
    for name in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(match.get(name) or ()):
            yield from check_rule(rule, f"{field}.{name}[{index}]")


def _check_variables(variables: Sequence[Raw]) -> Iterator[Cause]:
    for number, variable in enumerate(variables):
        if not str(variable.get("name") or "").isidentifier():
            text = "name is not a valid CEL identifier"
            yield invalid(f"spec.variables[{number}].name", variable.get("name", ""), text)
        if not str(variable.get("expression") or "").strip():
            yield required(f"spec.variables[{number}].expression", "expression is not specified")


def _check_validations(validations: Sequence[Raw]) -> Iterator[Cause]:
    for number, validation in enumerate(validations):
        field, message = f"spec.validations[{number}]", str(validation.get("message") or "")
        if not str(validation.get("expression") or "").strip():
            yield required(f"{field}.expression", "expression is not specified")
        if message and not message.strip():
            yield invalid(f"{field}.message", message, "message must be non-empty if specified")
        elif "\n" in message.strip() or "\r" in message.strip():
            yield invalid(f"{field}.message", message, "message must not contain line breaks")
        if (reason := validation.get("reason")) not in (None, *_REASONS):
            yield not_supported(f"{field}.reason", reason, _REASONS)


def _check_annotations(annotations: Sequence[Raw], policy: str) -> Iterator[Cause]:
    """Keys become names with the policy as prefix, so that they must be valid as such."""
    keys: set[str] = set()
    for number, annotation in enumerate(annotations):
        field, key = f"spec.auditAnnotations[{number}]", annotation.get("key") or ""
        for fault in qualified_name_faults(f"{policy}/{key}"):
            yield invalid(f"{field}.key", f"{policy}/{key}", fault)
        if key in keys:
            yield duplicate(f"{field}.key", key)
        keys.add(key)
        if not str(annotation.get("valueExpression") or "").strip():
            yield required(f"{field}.valueExpression", "valueExpression is not specified")


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
        if action in actions[:number]:
            found.append(duplicate(f"spec.validationActions[{number}]", action))
    if {"Deny", "Warn"} <= set(actions):
        text = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)"
        found.append(invalid("spec.validationActions", list(actions), text))
    if spec.get("paramRef") is not None:
        found += _check_param_reference(spec["paramRef"])
    found += _check_match_resources(object_at(spec, "matchResources"), "spec.matchResources", needs_rules=False)
    return found


def _check_param_reference(reference: Raw) -> Iterator[Cause]:
    has_name, has_selector = bool(reference.get("name")), reference.get("selector") is not None
    if has_name and has_selector:
        for field in ("name", "selector"):
            yield forbidden(f"spec.paramRef.{field}", "name and selector are mutually exclusive")
    elif not has_name and not has_selector:
        yield required("spec.paramRef", "one of name or selector must be specified")
    action = reference.get("parameterNotFoundAction")
    if not action:
        yield required("spec.paramRef.parameterNotFoundAction")
    elif action not in _NOT_FOUND_ACTIONS:
        yield not_supported("spec.paramRef.parameterNotFoundAction", action, _NOT_FOUND_ACTIONS)
