"""Content negotiation: the format of the response and the media type of the request body."""

from functools import lru_cache
from typing import NamedTuple

from trimtab.errors import NotAcceptable

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
KNOWN = f"{JSON}, {YAML}, {PROTOBUF}"
_TRANSFORMS = {"Table", "PartialObjectMetadata", "PartialObjectMetadataList"}
_WILD = {"", "*/*", "application/*", JSON}


class Entry(NamedTuple):
    """One alternative of an Accept header."""

    media: str
    parameters: dict[str, str]


class Form(NamedTuple):
    """The negotiated format of a response."""

    media: str = JSON
    transform: str = ""
    """`Table`, `PartialObjectMetadata`, `PartialObjectMetadataList` or empty."""
    version: str = "v1"
    """Version of meta.k8s.io of a transformed response."""


def _quality(entry: Entry) -> float:
    try:
        return float(entry.parameters.get("q", "1"))
    except ValueError:
        return 0.0


@lru_cache(maxsize=256)
def entries(accept: str) -> tuple[Entry, ...]:
    """The alternatives of an Accept header, best first."""
    parsed = []
    for part in accept.split(","):
        media, *rest = [piece.strip() for piece in part.split(";")]
        pairs = (piece.partition("=") for piece in rest)
        parsed.append(Entry(media.lower(), {key.strip(): value.strip() for key, _, value in pairs}))
    return tuple(sorted(parsed, key=_quality, reverse=True))


def _transform_of(entry: Entry, *, single: bool) -> Form | None:
    wanted = entry.parameters.get("as", "")
    media = JSON if entry.media in _WILD else entry.media
    if not wanted:
        return Form(media)
    version = entry.parameters.get("v", "")
    if wanted not in _TRANSFORMS or entry.parameters.get("g") != "meta.k8s.io" or version not in {"v1", "v1beta1"}:
        return None
    if media == PROTOBUF and wanted == "Table":
        return None  # tables have no protobuf encoding here, and no known client requests one
    if (wanted == "PartialObjectMetadataList") == single and wanted != "Table":
        return None
    return Form(media, wanted, version)


@lru_cache(maxsize=256)
def form_of(accept: str, *, single: bool, watch: bool = False, custom: bool = False) -> Form:
    """The first alternative that can be served; NotAcceptable when there is none."""
    bad_transform = False
    for entry in entries(accept):
        if entry.media not in _WILD and entry.media not in {YAML, PROTOBUF}:
            continue
        if entry.media == PROTOBUF and (custom and not entry.parameters.get("as", "").startswith("Partial")):
            continue
        if watch and entry.media == YAML:
            continue
        form = _transform_of(entry, single=single or watch)
        if form is not None:
            return form
        bad_transform = True
    if bad_transform:
        raise NotAcceptable(f"only the following media types are accepted: {KNOWN}")
    raise NotAcceptable(f"406: Not Acceptable\n\nAvailable representations: {KNOWN}", details=True)


def wants_pretty(query: str | None, user_agent: str) -> bool:
    """Whether to indent JSON: the `pretty` parameter decides, else curl, Wget and browsers get it indented."""
    if query is not None:
        return query not in {"", "0", "false"}
    return user_agent.startswith(("curl", "Wget", "Mozilla/5.0"))


def content_media(content_type: str) -> str:
    """The media type of a request body, without its parameters."""
    return content_type.partition(";")[0].strip().lower()


@lru_cache(maxsize=256)
def prefers_protobuf(accept: str) -> bool:
    """Whether objects and errors of a built-in kind are sent as protobuf."""
    known = (entry.media for entry in entries(accept) if entry.media in _WILD or entry.media in {YAML, PROTOBUF})
    return next(known, "") == PROTOBUF
