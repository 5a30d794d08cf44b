"""Resource versions of the search proxy: the resource version of every cluster, in one text.

A client gives the version of a list to a watch, and that of the last event to the next watch, so a version has to say how
far the client has seen each cluster. It is the JSON of a map by cluster in base64, which clients do not interpret.
"""

import base64
import binascii
from collections.abc import Mapping

import orjson

from trimtab.api.value import Raw
from trimtab.errors import BadRequest

SOURCE_ANNOTATION = "resource.karmada.io/cached-from-cluster"


def encode_revisions(revisions: Mapping[str, str]) -> str:
    return base64.urlsafe_b64encode(orjson.dumps(dict(sorted(revisions.items())))).rstrip(b"=").decode()


def decode_revisions(text: str) -> dict[str, str]:
    """The resource versions by cluster; none for an empty version and for 0, which accept any state."""
    if text in ("", "0"):
        return {}
    try:
        found = orjson.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (binascii.Error, ValueError) as fault:
        raise BadRequest(f"invalid resource version {text!r}: it is not one of the search proxy") from fault
    if not isinstance(found, dict) or not all(isinstance(one, str) for one in found.values()):
        raise BadRequest(f"invalid resource version {text!r}: it is not one of the search proxy")
    return found


def with_source(raw: Raw, cluster: str) -> Raw:
    """The object with the annotation that names its cluster."""
    metadata = raw["metadata"]
    annotations = {**(metadata.get("annotations") or {}), SOURCE_ANNOTATION: cluster}
    return {**raw, "metadata": {**metadata, "annotations": annotations}}


def as_proxied(raw: Raw, cluster: str, revisions: Mapping[str, str] | None = None) -> Raw:
    """The object as the proxy shows it: with its cluster, and with a version that the proxy understands."""
    shown = with_source(raw, cluster)
    own = str(raw["metadata"].get("resourceVersion", ""))
    shown["metadata"]["resourceVersion"] = encode_revisions({**(revisions or {}), cluster: own})
    return shown


def as_stored(raw: Raw, cluster: str) -> Raw:
    """An object that a client sends back, as its cluster knows it; what has no metadata to restore is left to it."""
    metadata = raw.get("metadata") or {}
    if not isinstance(metadata, dict) or not isinstance(metadata.get("annotations") or {}, dict):
        return raw
    metadata, annotations = dict(metadata), dict(metadata.get("annotations") or {})
    annotations.pop(SOURCE_ANNOTATION, None)
    metadata["annotations"] = annotations
    if not annotations:
        del metadata["annotations"]
    if metadata.get("resourceVersion"):
        metadata["resourceVersion"] = decode_revisions(str(metadata["resourceVersion"])).get(cluster, "")
    return {**raw, "metadata": metadata}
