"""Helpers that run the defaulting and validation of a kind on a raw object."""

from trimtab.api import kinds as kind_modules
from trimtab.api.kind import kinds
from trimtab.api.value import Raw
from trimtab.registry import discover

discover(kind_modules)


def with_defaults(kind_id: str, raw: Raw) -> Raw:
    kind = kinds[kind_id]
    for default in (*kind.defaults, *kind.admission_defaults):
        raw = default(raw)
    return raw


def errors_of(kind_id: str, raw: Raw, old: Raw | None = None) -> list[str]:
    kind = kinds[kind_id]
    checks = (*kind.validators, *kind.admission_validators)
    return [
        f"{cause.field}: {cause.message}" if cause.field else cause.message
        for check in checks
        for cause in check(raw, old)
    ]
