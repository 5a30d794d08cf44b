"""Converts custom resources between the versions of their CRD by the webhook that the CRD names."""

from collections import OrderedDict
from collections.abc import Iterable, Sequence

import orjson

from trimtab.api.value import Raw
from trimtab.server import api_errors
from trimtab.server.admission.dynamic.service_calls import ServiceCalls
from trimtab.server.admission.dynamic.webhook_calls import CallFailed
from trimtab.server.storage.object_codec import pack
from trimtab.server.storage.uids import random_uid
from trimtab.server.storage.version_conversion import version_of, with_version

_GROUP = "apiextensions.k8s.io"
_SECONDS = 30.0
_MAX_KEPT_BYTES = 4 * 1024 * 1024
_IDENTITY = ("name", "namespace", "uid")
_CHANGEABLE_METADATA = ("labels", "annotations")


class ConversionWebhook:
    """The converter of one CRD in one generation. What it converted last is kept: every watcher asks for the same."""

    def __init__(self, spec: Raw, stored_versions: Sequence[str], calls: ServiceCalls) -> None:
        webhook = spec["conversion"].get("webhook") or {}
        storage = next(version["name"] for version in spec["versions"] if version.get("storage"))
        self._kind: str = spec["names"]["kind"]
        self._client_config: Raw = webhook.get("clientConfig") or {}
        self._review_versions: Sequence[str] = webhook.get("conversionReviewVersions") or ()
        self._calls = calls
        self.storage_version = f"{spec['group']}/{storage}"
        self._unnamed_version = f"{spec['group']}/{stored_versions[0]}" if stored_versions else self.storage_version
        """The version of objects that were stored while the CRD had no webhook."""
        self._kept: OrderedDict[tuple[str, bytes], bytes] = OrderedDict()
        self._kept_bytes = 0

    async def convert(self, values: Sequence[bytes], api_version: str) -> list[bytes]:
        """Stored bytes in this version; raises `InternalError` when the webhook does not convert them."""
        found = list(values)
        missing: dict[int, str] = {}
        for number, value in enumerate(values):
            current = version_of(value)
            if current == api_version:
                continue
            if (kept := self._kept.get((api_version, value))) is not None:
                self._kept.move_to_end((api_version, value))
                found[number] = kept
            elif (current or self._unnamed_version) == api_version:
                found[number] = with_version(value, api_version)
            else:
                missing[number] = current or self._unnamed_version
        if missing:
            objects = [_object_from(values[number], version, self._kind) for number, version in missing.items()]
            converted = await self._call(objects, api_version)
            for number, obj in zip(missing, converted, strict=True):
                found[number] = with_version(pack(obj), api_version)
                self._keep((api_version, values[number]), found[number])
        return found

    def _keep(self, key: tuple[str, bytes], value: bytes) -> None:
        self._kept[key] = value
        self._kept_bytes += len(key[1]) + len(value)
        while self._kept_bytes > _MAX_KEPT_BYTES:
            (_, before), after = self._kept.popitem(last=False)
            self._kept_bytes -= len(before) + len(after)

    async def _call(self, objects: Sequence[Raw], api_version: str) -> list[Raw]:
        try:
            return await self._review(objects, api_version)
        except CallFailed as error:
            version = objects[0]["apiVersion"]
            message = f"conversion webhook for {version}, Kind={self._kind} failed: {error}"
            raise api_errors.internal_error(message) from None

    async def _review(self, objects: Sequence[Raw], api_version: str) -> list[Raw]:
        if "v1" not in self._review_versions:
            raise CallFailed("its conversionReviewVersions do not contain v1")
        uid = random_uid()
        review = {
            "kind": "ConversionReview",
            "apiVersion": f"{_GROUP}/v1",
            "request": {"uid": uid, "desiredAPIVersion": api_version, "objects": objects},
        }
        content = await self._calls.post(self._client_config, orjson.dumps(review), _SECONDS)
        converted = _read_response(content, uid)
        if len(converted) != len(objects):
            raise CallFailed(f"it returned {len(converted)} objects, expected {len(objects)}")
        return [_check_conversion(before, after, api_version) for before, after in zip(objects, converted, strict=True)]


def _object_from(value: bytes, api_version: str, kind: str) -> Raw:
    stored: Raw = orjson.loads(value)
    return {**stored, "apiVersion": api_version, "kind": kind}


def _read_response(content: bytes, uid: str) -> list[Raw]:
    try:
        review = orjson.loads(content)
        response = review["response"]
        result, converted = response.get("result") or {}, response.get("convertedObjects") or []
    except (orjson.JSONDecodeError, TypeError, KeyError, AttributeError):
        raise CallFailed("its answer is not a ConversionReview with a response") from None
    if review.get("apiVersion") != f"{_GROUP}/v1" or response.get("uid") != uid:
        raise CallFailed("its answer has another apiVersion or uid than the request")
    if result.get("status") != "Success":
        raise CallFailed(str(result.get("message") or "its answer reports no success"))
    if not isinstance(converted, list) or not all(isinstance(one, dict) for one in converted):
        raise CallFailed("its answer has no list of objects")
    return converted


def _check_conversion(before: Raw, after: Raw, api_version: str) -> Raw:
    """The converted object with the metadata of the one before, except for what a webhook may change."""
    if after.get("apiVersion") != api_version or after.get("kind") != before["kind"]:
        raise CallFailed(f"it returned an object of {after.get('apiVersion')}, Kind={after.get('kind')}")
    metadata = after.get("metadata")
    if not isinstance(metadata, dict) or _identity(metadata) != _identity(before["metadata"]):
        raise CallFailed("it changed the name, the namespace or the uid of an object")
    changed = {name: metadata[name] for name in _CHANGEABLE_METADATA if metadata.get(name)}
    kept = {name: value for name, value in before["metadata"].items() if name not in _CHANGEABLE_METADATA}
    return {**after, "metadata": {**kept, **changed}}


def _identity(metadata: Raw) -> Iterable[object]:
    return [metadata.get(name) for name in _IDENTITY]
