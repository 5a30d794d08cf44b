"""Validation of names, label keys and label values, with the error messages of Kubernetes."""

import re
from collections.abc import Callable, Sequence

from trimtab.api.text_cache import cache_short_texts

_NAME_PART = re.compile(r"(?:[A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]\Z")
_LABEL_VALUE = r"(?:(?:[A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?\Z"
_SUBDOMAIN = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*\Z"
_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?\Z"
_SERVICE = r"[a-z](?:[-a-z0-9]*[a-z0-9])?\Z"

SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
SERVICE_TEXT = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)
_NAME_PART_TEXT = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_LABEL_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_QUALIFIED_TEXT = (
    "a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
)


def _name_check(pattern: str, message: str, limit: int) -> Callable[[str], list[str]]:
    """A function that returns the errors of a name with this pattern, which only ASCII text matches."""
    has_form = re.compile(pattern).match

    def faults(text: str) -> list[str]:
        is_formed = has_form(text)
        if is_formed and len(text) <= limit:
            return []
        too_long = [f"must be no more than {limit} bytes"] if len(text.encode()) > limit else []
        return too_long if is_formed else [*too_long, message]

    return faults


subdomain_faults = _name_check(_SUBDOMAIN, SUBDOMAIN_TEXT, 253)
label_faults = _name_check(_LABEL, LABEL_TEXT, 63)
"""The errors of a DNS-1123 label."""
service_name_faults = _name_check(_SERVICE, SERVICE_TEXT, 63)
"""The errors of a DNS-1035 label."""
label_value_faults = cache_short_texts(4096)(_name_check(_LABEL_VALUE, _LABEL_VALUE_TEXT, 63))
"""The errors of a label value; cached, because an object repeats its labels in selectors, templates and dependents."""


def path_segment_faults(name: str) -> list[str]:
    """Names of roles may contain anything that fits into one path segment."""
    if name in {".", ".."}:
        return [f"may not be '{name}'"]
    return [f"may not contain '{part}'" for part in ("/", "%") if part in name]


@cache_short_texts(4096)
def qualified_name_faults(key: str) -> Sequence[str]:
    """The errors of a label or annotation key; cached, because the same keys are checked over and over."""
    parts = key.split("/")
    if len(parts) > 2:
        return (_QUALIFIED_TEXT,)
    faults = []
    name = parts[-1]
    if len(parts) == 2:
        if not parts[0]:
            faults.append("prefix part must be non-empty")
        else:
            faults.extend(f"prefix part {fault}" for fault in subdomain_faults(parts[0]))
    if not name:
        faults.append("name part must be non-empty")
    elif len(name) > 63:
        faults.append("name part must be no more than 63 bytes")
    return tuple(faults) if _NAME_PART.match(name) else (*faults, _NAME_PART_TEXT)
