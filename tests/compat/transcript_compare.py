"""Compares a replayed response with the recorded response of a real kube-apiserver.

Status code, content type, the reason, message and causes of a Status, the set of keys (recursively), table columns and
the order and types of watch events must agree.
"""

import json
import re
from typing import Any

from compat.transcripts import Exchange

MASKS = [
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "UID"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "TIME"),
    (re.compile(r'(resourceVersion\\*":\\*")\d+'), r"\1N"),
    (re.compile(r"\b\d{3,}\b"), "N"),
]
UNMODELLED = {"shardInfo"}
"""Keys of the recorded (1.37) server that a 1.32 server does not have."""


def mask_text(text: str) -> str:
    for pattern, name in MASKS:
        text = pattern.sub(name, text)
    return text


def differences(want: Any, got: Any, path: str = "") -> list[str]:
    """Where the keys of two responses differ."""
    if isinstance(want, dict) and isinstance(got, dict):
        return key_differences(want, got, path)
    if isinstance(want, list) and isinstance(got, list):
        got = align_items(want, got)
        found = []
        for index, (one, other) in enumerate(zip(want, got, strict=False)):
            found += differences(one, other, f"{path}[{index}]")
        return found
    if type(want) is not type(got) and not (isinstance(want, int | float) and isinstance(got, int | float)):
        return [f"{path}: want {want!r:.60}, got {got!r:.60}"]
    return []


def identity(item: Any) -> tuple:
    metadata = item.get("metadata") if isinstance(item, dict) else None
    return (metadata.get("namespace"), metadata.get("name")) if isinstance(metadata, dict) else ()


def align_items(want: list, got: list) -> list:
    """Our items in the order of the recorded ones, if all items have names."""
    ours = {identity(item): item for item in got}
    if () in ours or any(identity(item) not in ours for item in want):
        return got
    return [ours[identity(item)] for item in want]


def key_differences(want: dict, got: dict, path: str) -> list[str]:
    partly = any(key.startswith("_") for key in want)
    expected = {key for key in want if not key.startswith("_")} - UNMODELLED
    found = [f"{path}: lacks {key}" for key in sorted(expected - set(got))]
    if not partly:
        found += [f"{path}: has {key} besides" for key in sorted(set(got) - set(want) - {"description"})]
    for key in sorted(expected & set(got)):
        found += differences(want[key], got[key], f"{path}.{key}")
    return found


def describe_difference(want: Any, got: Any) -> str:
    """Two texts from the first difference on."""
    if not isinstance(want, str) or not isinstance(got, str):
        return f"want {want!r:.300}, got {got!r:.300}"
    at = next((i for i, (a, b) in enumerate(zip(want, got, strict=False)) if a != b), 0)
    start = max(0, at - 40)
    return f"want {want[start:]!r:.300}, got {got[start:]!r:.300}"


def status_differences(want: dict, got: dict) -> list[str]:
    found = []
    for key in ("reason", "message", "status", "code"):
        one, other = want.get(key), got.get(key)
        if isinstance(one, str) and isinstance(other, str):
            one, other = mask_text(one), mask_text(other)
        if one != other:
            found.append(f"{key}: {describe_difference(one, other)}")
    causes = [
        [
            (c.get("reason"), mask_text(c.get("message", "")), c.get("field"))
            for c in (s.get("details") or {}).get("causes") or ()
        ]
        for s in (want, got)
    ]
    if causes[0] != causes[1]:
        found.append(f"causes: want {causes[0]!r:.300}, got {causes[1]!r:.300}")
    return found


def columns(table: dict) -> list:
    return [(c["name"], c["type"], c.get("format", ""), c.get("priority", 0)) for c in table["columnDefinitions"] or ()]


DISCOVERY = {"APIGroupList", "APIResourceList", "APIGroupDiscoveryList", "APIGroup"}


def body_differences(want: Any, got: Any) -> list[str]:
    if not isinstance(want, dict) or not isinstance(got, dict):
        return [] if isinstance(want, str) == isinstance(got, str) else [f"want {want!r:.80}, got {got!r:.80}"]
    if want.get("kind") == "Status":
        return status_differences(want, got) + differences(want, got)
    if want.get("kind") in DISCOVERY or "openapi" in want or "swagger" in want or set(want) == {"paths"}:
        return [f"lacks {key}" for key in want if not key.startswith("_") and key not in got]
    found = differences(want, got)
    if want.get("kind") == "Table" and columns(want) != columns(got):
        found.append(f"columns: want {columns(want)}, got {columns(got)}")
    return found


def compare(e: Exchange, status: int, headers: dict, body: bytes) -> list[str]:
    if e.path.partition("?")[0].rstrip("/") in {"/version", "/metrics"}:
        return [] if status == e.status else [f"status {status}"]
    if e.path.startswith("/openapi/v3/version") or "proto-openapi.spec.v3" in e.headers.get("accept", ""):
        return []  # no client is known to use the schema of /version or schemas in protobuf
    found = [] if status == e.status else [f"status: want {e.status}, got {status} {body[:200]!r}"]
    want, got = e.recorded_headers.get("content-type", ""), headers.get("content-type", "")
    if want != got and e.status not in {304, 204}:
        found.append(f"content type: want {want!r}, got {got!r}")
    if found:
        return found
    if e.events is not None and "stream=watch" not in got:
        return watch_differences(e.events, [json.loads(line) for line in body.splitlines()])
    if isinstance(e.recorded_body, dict) and (
        "_base64_prefix" in e.recorded_body or "_same_body_as" in e.recorded_body
    ):
        return []
    if isinstance(e.recorded_body, dict):
        return body_differences(e.recorded_body, json.loads(body))
    if (
        isinstance(e.recorded_body, str)
        and "yaml" not in want
        and e.method != "HEAD"
        and not e.recorded_body.startswith(("[", "{"))
    ):
        return (
            []
            if mask_text(e.recorded_body) == mask_text(body.decode())
            else [f"text: want {e.recorded_body!r:.200}, got {body!r:.200}"]
        )
    return []


def watch_differences(want: list, got: list) -> list[str]:
    types = [[event["type"] for event in events] for events in (want, got)]
    if types[0] != types[1]:
        return [f"events: want {types[0]}, got {types[1]}"]
    found = []
    for index, (one, other) in enumerate(zip(want, got, strict=True)):
        found += [f"event {index} {text}" for text in differences(one, other)]
    return found
