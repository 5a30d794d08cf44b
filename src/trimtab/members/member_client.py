"""Clients of members, with the credentials that `trimtab join` stored on the host."""

import base64
from collections.abc import Callable
from functools import partial

from trimtab.api.kinds.cluster import Cluster
from trimtab.api.value import Raw
from trimtab.client.client import Client, Resource
from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import Credentials
from trimtab.errors import NotFound

SECRETS = Resource("", "v1", "secrets", "Secret")


def client_from_secret(
    cluster: Cluster, secret: Callable[[str, str], Raw | None], before_write: Callable[[], None] | None = None
) -> KubeClient | None:
    """A client with the credentials that `join` stored on the host; `None` if there are none."""
    ref = cluster.spec.secret_ref
    if ref is None or not cluster.spec.api_endpoint:
        return None
    place = (ref.namespace, ref.name)
    found = secret(*place)
    if found is None:
        return None
    read = partial(_decode_field, found)
    return KubeClient(
        Credentials(
            server=cluster.spec.api_endpoint.rstrip("/"),
            ca=read("caBundle"),
            skip_verify=bool(cluster.spec.insecure_skip_tls_verification),
            proxy=cluster.spec.proxy_url,
            # The token is renewed while the client is used (`token_renewal.py`).
            read_token=lambda: _decode_field(secret(*place) or found, "token").decode(),
            cert=read("tls.crt"),
            key=read("tls.key"),
        ),
        before_write=before_write,
    )


async def stored_secret(host: Client, cluster: Cluster) -> Raw | None:
    """The Secret with the credentials of a cluster; `None` if there is none."""
    ref = cluster.spec.secret_ref
    try:
        return await host.get(SECRETS, ref.namespace, ref.name) if ref is not None else None
    except NotFound:
        return None


def _decode_field(secret: Raw, name: str) -> bytes:
    data = secret.get("data") or {}
    return base64.b64decode(data[name]) if data.get(name) else b""
