"""Clients of members, with the credentials that `trimtab join` stored on the host."""

import base64
from collections.abc import Callable, Mapping
from functools import partial

from trimtab.api.kinds.cluster import Cluster
from trimtab.api.value import Raw
from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import Credentials


def client_from_secret(cluster: Cluster, secret: Callable[[str, str], Raw | None]) -> KubeClient | None:
    """A client with the credentials that `join` stored on the host; `None` if there are none."""
    ref = cluster.spec.secret_ref
    found = secret(ref.namespace, ref.name) if ref is not None else None
    if found is None or not cluster.spec.api_endpoint:
        return None
    data = found.get("data") or {}
    read = partial(_decode_field, data)
    return KubeClient(
        Credentials(
            server=cluster.spec.api_endpoint.rstrip("/"),
            ca=read("caBundle"),
            skip_verify=bool(cluster.spec.insecure_skip_tls_verification),
            proxy=cluster.spec.proxy_url,
            token=read("token").decode(),
            cert=read("tls.crt"),
            key=read("tls.key"),
        )
    )


def _decode_field(data: Mapping[str, str], name: str) -> bytes:
    return base64.b64decode(data[name]) if data.get(name) else b""
