"""ServiceAccount admission: a pod runs as an account that exists, with a token mounted unless it opts out."""

import asyncio
import secrets

import orjson

from trimtab.api.kind import Kind
from trimtab.api.value import Raw
from trimtab.server import api_errors
from trimtab.server.admission.chain import Attributes
from trimtab.store.keys import key_below, resource_prefix
from trimtab.store.store import Store

_ACCOUNTS = resource_prefix("", "serviceaccounts")
TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 - a path, not a secret
_TOKEN_SECONDS = 3607
_SUFFIX_CHARACTERS = "bcdfghjklmnpqrstvwxz2456789"
_ATTEMPTS, _PAUSE_SECONDS = 20, 0.1
"""The account `default` of a new namespace is created a moment later than the namespace."""
_MIRROR_ANNOTATION = "kubernetes.io/config.mirror"


class ServiceAccountAdmission:
    """A mutating plugin for new pods."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def handles(self, kind: Kind, operation: str) -> bool:
        return kind.id == "pods" and operation == "CREATE"

    async def mutate(self, attributes: Attributes, obj: Raw, old: Raw | None) -> Raw:
        if attributes.where.subresource or _MIRROR_ANNOTATION in (obj["metadata"].get("annotations") or {}):
            return obj
        spec: Raw = {**obj["spec"]}
        name = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
        account = await self._find_account(attributes, name)
        spec |= {"serviceAccountName": name, "serviceAccount": name}
        if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
            spec["imagePullSecrets"] = account["imagePullSecrets"]
        if _wants_token(spec, account):
            spec = _with_token_volume(spec)
        return {**obj, "spec": spec}

    async def _find_account(self, attributes: Attributes, name: str) -> Raw:
        namespace = attributes.where.namespace
        for attempt in range(_ATTEMPTS if name == "default" else 1):
            if attempt:
                await asyncio.sleep(_PAUSE_SECONDS)
            entry = self._store.get(key_below(_ACCOUNTS, name, namespace))
            if entry is not None:
                return orjson.loads(entry.value)  # type: ignore[no-any-return]
        why = f'error looking up service account {namespace}/{name}: serviceaccount "{name}" not found'
        raise api_errors.forbidden("pods", "", attributes.where.name, why)


def _wants_token(spec: Raw, account: Raw) -> bool:
    for holder in (spec, account):
        wanted = holder.get("automountServiceAccountToken")
        if wanted is not None:
            return bool(wanted)
    return True


def _with_token_volume(spec: Raw) -> Raw:
    """The pod spec with a projected token in every container that mounts nothing else at its path."""
    parts = ("containers", "initContainers")
    if not any(_lacks_mount(one) for part in parts for one in spec.get(part) or ()):
        return spec
    name = "kube-api-access-" + "".join(secrets.choice(_SUFFIX_CHARACTERS) for _ in range(5))
    mount = {"name": name, "readOnly": True, "mountPath": TOKEN_PATH}
    mounted = {
        part: [
            {**one, "volumeMounts": [*(one.get("volumeMounts") or ()), mount]} if _lacks_mount(one) else one
            for one in spec[part]
        ]
        for part in parts
        if spec.get(part)
    }
    return {**spec, **mounted, "volumes": [*(spec.get("volumes") or ()), _token_volume(name)]}


def _lacks_mount(container: Raw) -> bool:
    return all(one.get("mountPath") != TOKEN_PATH for one in container.get("volumeMounts") or ())


def _token_volume(name: str) -> Raw:
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    sources = [
        {"serviceAccountToken": {"expirationSeconds": _TOKEN_SECONDS, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [namespace]}},
    ]
    return {"name": name, "projected": {"sources": sources, "defaultMode": 420}}
