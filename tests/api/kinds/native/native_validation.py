"""Helpers that default and validate raw native objects as the server does."""

import copy
from typing import Any

import trimtab.api.kinds
from trimtab.api.field_errors import format_causes
from trimtab.api.kind import find_kind
from trimtab.api.kinds.native import codec
from trimtab.api.kinds.native.fields import message_name
from trimtab.api.value import Raw
from trimtab.registry import discover

discover(trimtab.api.kinds)


def decode_with_defaults(api_version: str, kind: str, raw: Raw) -> Raw:
    declared = find_kind(api_version, kind)
    assert declared is not None
    obj = codec.read(message_name(api_version, kind), raw).body
    for fill in declared.defaults:
        obj = fill(obj)
    return obj


def validation_error(api_version: str, kind: str, new: Raw, old: Raw | None = None) -> str:
    """The text that kube-apiserver returns for this create or update; empty when it accepts the object."""
    declared = find_kind(api_version, kind)
    assert declared is not None
    before = decode_with_defaults(api_version, kind, old) if old is not None else None
    after = decode_with_defaults(api_version, kind, new)
    causes = [cause for check in declared.validators for cause in check(after, before)]
    return format_causes(causes) if causes else ""


def with_change(raw: Raw, *path: str | int, to: Any) -> Raw:
    """A copy of `raw` with the value at `path` replaced, or deleted when `to` is None."""
    copied: Any = copy.deepcopy(raw)
    parent = copied
    for step in path[:-1]:
        parent = parent[step] if isinstance(step, int) else parent.setdefault(step, {})
    if to is None:
        del parent[path[-1]]
    else:
        parent[path[-1]] = to
    return copied  # type: ignore[no-any-return]
