"""What kube-apiserver rejects in APIServices."""

from collections.abc import Sequence

from trimtab.api.field_errors import invalid, required
from trimtab.api.paths import object_at
from trimtab.api.value import Raw
from trimtab.errors import Cause

_MAX_GROUP_PRIORITY, _MAX_VERSION_PRIORITY = 20_000, 1_000


def check_api_service(new: Raw, old: Raw | None) -> Sequence[Cause]:
    spec, name = object_at(new, "spec"), object_at(new, "metadata").get("name", "")
    expected = f"{spec.get('version', '')}.{spec.get('group', '')}"
    found: list[Cause] = []
    if name != expected:
        text = f'must be `spec.version+"."+spec.group`: {expected!r}'
        found.append(invalid("metadata.name", name, text))
    if not spec.get("version"):
        found.append(required("spec.version"))
    for field, most in (("groupPriorityMinimum", _MAX_GROUP_PRIORITY), ("versionPriority", _MAX_VERSION_PRIORITY)):
        value = spec.get(field) or 0
        if not 0 < value <= most:
            found.append(invalid(f"spec.{field}", value, f"must be positive and less than {most}"))
    service = spec.get("service")
    if service is None:
        found += [
            invalid(f"spec.{field}", spec[field], "local APIServices may not have it")
            for field in ("caBundle", "insecureSkipTLSVerify")
            if spec.get(field)
        ]
    else:
        found += [required(f"spec.service.{field}") for field in ("namespace", "name") if not service.get(field)]
        port = service.get("port")
        if port is not None and not 0 < port < 65536:
            found.append(invalid("spec.service.port", port, "must be between 1 and 65535, inclusive"))
        if spec.get("insecureSkipTLSVerify") and spec.get("caBundle"):
            text = "may not be true if caBundle is present"
            found.append(invalid("spec.insecureSkipTLSVerify", True, text))
    return found
