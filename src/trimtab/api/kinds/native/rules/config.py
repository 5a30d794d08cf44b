"""What kube-apiserver rejects in ConfigMaps and Secrets."""

import base64
from collections.abc import Iterator, Sequence

from trimtab.api.field_errors import forbidden, invalid, required, too_long
from trimtab.api.kinds.native.rules import common
from trimtab.api.paths import object_at
from trimtab.api.value import Raw
from trimtab.errors import Cause

_MAX_SIZE_BYTES = 1024 * 1024
_IMMUTABLE_TEXT = "field is immutable when `immutable` is set"


def _check_immutable(new: Raw, old: Raw, parts: Sequence[str]) -> Iterator[Cause]:
    if not old.get("immutable"):
        return
    if not new.get("immutable"):
        yield forbidden("immutable", _IMMUTABLE_TEXT)
    for part in parts:
        if (new.get(part) or {}) != (old.get(part) or {}):
            yield forbidden(part, _IMMUTABLE_TEXT)


def check_config_map(new: Raw, old: Raw | None) -> Sequence[Cause]:
    data, binary = new.get("data") or {}, new.get("binaryData") or {}
    found: list[Cause] = list(_check_immutable(new, old, ("data", "binaryData"))) if old is not None else []
    size = 0
    for part, values in (("data", data), ("binaryData", binary)):
        for key, value in sorted(values.items()):
            found += [invalid(f"{part}[{key}]", key, fault) for fault in common.config_key_faults(key)]
            if part == "data" and key in binary:
                found.append(invalid(f"data[{key}]", key, "duplicate of key present in binaryData"))
            size += len(value.encode()) if part == "data" else len(base64.b64decode(value))
    if size > _MAX_SIZE_BYTES:
        found.append(too_long("[]", _MAX_SIZE_BYTES))  # kube-apiserver names the whole object `[]`
    return found


_REQUIRED_SECRET_KEYS = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}


def check_secret(new: Raw, old: Raw | None) -> Sequence[Cause]:
    data, kind = new.get("data") or {}, new.get("type", "")
    found: list[Cause] = []
    if old is not None:
        found += common.check_unchanged(kind, old.get("type", ""), "type")
        found += _check_immutable(new, old, ("data",))
    for key in sorted(data):
        found += [invalid(f"data[{key}]", key, fault) for fault in common.config_key_faults(key)]
    if sum(len(base64.b64decode(value)) for value in data.values()) > _MAX_SIZE_BYTES:
        found.append(too_long("data", _MAX_SIZE_BYTES))
    for key in _REQUIRED_SECRET_KEYS.get(kind, ()):
        if key not in data:
            found.append(required(f"data[{key}]"))
    if kind == "kubernetes.io/basic-auth" and not {"username", "password"} & set(data):
        found += [required("data[username]"), required("data[password]")]
    annotation = "kubernetes.io/service-account.name"
    if kind == "kubernetes.io/service-account-token" and not object_at(new, "metadata", "annotations").get(annotation):
        found.append(required(f"metadata.annotations[{annotation}]"))
    return found
