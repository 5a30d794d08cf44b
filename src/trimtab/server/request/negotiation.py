"""Content negotiation: the format of the response and the media type of the request body."""

from functools import lru_cache
from typing import NamedTuple

from trimtab.api.limits import MAX_ACCEPT_ENTRIES, MAX_ACCEPT_LENGTH
from trimtab.errors import NotAcceptable

JSON = "application/json"
YAML = "application/yaml"
APPLY = "application/apply-patch+yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
SUPPORTED_MEDIA_TYPES = f"{JSON}, {YAML}, {PROTOBUF}"
_TRANSFORMS = {"Table", "PartialObjectMetadata", "PartialObjectMetadataList"}
_JSON_ALIASES = {"", "*/*", "application/*", JSON}


def accept_error(accept: str) -> str:
    """Why an Accept header is refused; empty when it is not."""
    if len(accept) > MAX_ACCEPT_LENGTH:
        return f"the Accept header is longer than {MAX_ACCEPT_LENGTH} characters"
    if accept.count(",") < MAX_ACCEPT_ENTRIES:
        return ""
    if sum(1 for part in accept.split(",") if part.strip()) > MAX_ACCEPT_ENTRIES:
        return f"the Accept header has more than {MAX_ACCEPT_ENTRIES} alternatives"
    return ""


class AcceptEntry(NamedTuple):
    """One alternative of an Accept header."""

    media_type: str
    parameters: dict[str, str]


class ResponseFormat(NamedTuple):
    """The negotiated format of a response."""

    media_type: str = JSON
    transform: str = ""
    """`Table`, `PartialObjectMetadata`, `PartialObjectMetadataList` or empty."""
    version: str = "v1"
    """Version of meta.k8s.io of a transformed response."""


def _quality(entry: AcceptEntry) -> float:
    try:
        return float(entry.parameters.get("q", "1"))
    except ValueError:
        return 0.0


@lru_cache(maxsize=256)
def parse_accept(accept: str) -> tuple[AcceptEntry, ...]:
    """The alternatives of an Accept header, best first; those beyond the limit are left out."""
    parsed = []
    alternatives = [part for part in accept[:MAX_ACCEPT_LENGTH].split(",") if part.strip()] or [""]
    for part in alternatives[:MAX_ACCEPT_ENTRIES]:
        media, *rest = [piece.strip() for piece in part.split(";")]
        pairs = (piece.partition("=") for piece in rest)
        parsed.append(AcceptEntry(media.lower(), {key.strip(): value.strip() for key, _, value in pairs}))
    return tuple(sorted(parsed, key=_quality, reverse=True))


def _format_for(entry: AcceptEntry, *, single: bool) -> ResponseFormat | None:
    wanted = entry.parameters.get("as", "")
    media = JSON if entry.media_type in _JSON_ALIASES else entry.media_type
    if not wanted:
        return ResponseFormat(media)
    version = entry.parameters.get("v", "")
    if wanted not in _TRANSFORMS or entry.parameters.get("g") != "meta.k8s.io" or version not in {"v1", "v1beta1"}:
        return None
    if media == PROTOBUF and wanted == "Table":
        return None  # tables have no protobuf encoding here, and no known client requests one
    if (wanted == "PartialObjectMetadataList") == single and wanted != "Table":
        return None
    return ResponseFormat(media, wanted, version)


@lru_cache(maxsize=256)
def negotiate_format(
    accept: str, *, single: bool, watch: bool = False, custom: bool = False, tables: bool = True
) -> ResponseFormat:
    """The first alternative that can be served; NotAcceptable when there is none."""
    bad_transform = False
    for entry in parse_accept(accept):
        if entry.media_type not in _JSON_ALIASES and entry.media_type not in {YAML, PROTOBUF}:
            continue
        if entry.media_type == PROTOBUF and (custom and not entry.parameters.get("as", "").startswith("Partial")):
            continue
        if watch and entry.media_type == YAML:
            continue
        form = _format_for(entry, single=single or watch)
        if form is not None and (tables or form.transform != "Table"):
            return form
        bad_transform = True
    if bad_transform:
        raise NotAcceptable(f"only the following media types are accepted: {SUPPORTED_MEDIA_TYPES}")
    raise NotAcceptable(f"406: Not Acceptable\n\nAvailable representations: {SUPPORTED_MEDIA_TYPES}", details=True)


def wants_pretty(query: str | None, user_agent: str) -> bool:
    """Whether to indent JSON: the `pretty` parameter decides, else curl, Wget and browsers get it indented."""
    if query is not None:
        return query not in {"", "0", "false"}
    return user_agent.startswith(("curl", "Wget", "Mozilla/5.0"))


def media_type_of(content_type: str) -> str:
    """The media type of a request body, without its parameters."""
    return content_type.partition(";")[0].strip().lower()


@lru_cache(maxsize=256)
def prefers_protobuf(accept: str) -> bool:
    """Whether objects and errors of a built-in kind are sent as protobuf."""
    known = (
        entry.media_type
        for entry in parse_accept(accept)
        if entry.media_type in _JSON_ALIASES or entry.media_type in {YAML, PROTOBUF}
    )
    return next(known, "") == PROTOBUF
