"""The subresource `proxy` of pods, services and nodes: forwards a request to a container or a kubelet."""

import re
from urllib.parse import unquote, urlencode

from trimtab.api.value import Raw
from trimtab.errors import Unavailable
from trimtab.server import api_errors
from trimtab.server.admission.dynamic.service_calls import ServerRequest, ServiceCalls
from trimtab.server.registry.resource_store import ResourceStore
from trimtab.server.request.messages import Request, Response
from trimtab.server.resources import ObjectPath
from trimtab.server.subresources.pod_runtime import PodRuntime

_PLAIN_TEXT = "text/plain; charset=utf-8"
_KUBELET_PORTS = ("", "10250")
_HTTP_PORT = 80
_LINK = re.compile(r"""(<[a-z]+\b[^>]*?\s(?:href|src|action)=["'])(/(?!/)[^"'>]*)""", re.IGNORECASE)


class ProxySubresource:
    """Without a runtime nothing can be reached."""

    def __init__(self, resource_store: ResourceStore, calls: ServiceCalls, runtime: PodRuntime | None) -> None:
        self._calls = calls
        self._resource_store = resource_store
        self._runtime = runtime

    async def handle(self, request: Request, where: ObjectPath) -> Response:
        name, port = split_port(where.name)
        target = ObjectPath(where.served, where.namespace, name)
        found = self._resource_store.get(target).raw()
        path = unquote("/" + where.subresource.partition("/")[2])
        kind = where.served.kind.id
        if request.method == "GET" and request.path.endswith("/proxy"):
            return _redirect(request)
        if kind == "nodes":
            return self._node_response(request, name, port, path)
        pod, number = (found, _pod_port(found, port)) if kind == "pods" else self._pod_of_service(target, found, port)
        method = "HEAD" if request.without_body else request.method
        asked = ServerRequest(path, request.body, method, number, tls=where.name.startswith("https:"))
        answer = self._runtime.respond(pod, asked) if self._runtime is not None and pod else None
        if answer is None:
            subject = "service" if kind == "services" else "pod"
            raise Unavailable(f'no endpoints available for {subject} "{name}"')
        body = answer.body
        if answer.content_type.startswith("text/html"):
            body = with_links_below(f"/api/v1/namespaces/{where.namespace}/{kind}/{where.name}/proxy", body)
        return Response(answer.status, body.encode(), answer.content_type, verbatim=True)

    def _pod_of_service(self, where: ObjectPath, service: Raw, port: str) -> tuple[Raw | None, int]:
        """A ready pod and its port, by the name or number of a port of the Service; without one, of any port."""
        wanted = port or None
        if port.isdecimal():
            listed = (service.get("spec") or {}).get("ports") or ()
            wanted = next((one.get("name") or "" for one in listed if str(one.get("port")) == port), port)
        addresses = self._calls.endpoints(where.namespace, where.name, wanted)
        return next(((one.pod, one.port) for one in addresses if one.pod is not None), (None, 0))

    def _node_response(self, request: Request, node: str, port: str, path: str) -> Response:
        if request.method != "GET":
            raise api_errors.no_such_method()
        answer = (
            self._runtime.ask_kubelet(node, path, request.query)
            if self._runtime is not None and port in _KUBELET_PORTS
            else None
        )
        if answer is None:
            raise Unavailable(f'no endpoints available for node "{node}"')
        return Response(answer.code, answer.body, answer.media_type, verbatim=True)


def _redirect(request: Request) -> Response:
    """To the same address with a slash at the end, so that relative links of a page lead through the proxy."""
    query = f"?{urlencode(request.query)}" if request.query else ""
    return Response(301, b"", _PLAIN_TEXT, [(b"location", f"proxy/{query}".encode())], verbatim=True)


def _pod_port(pod: Raw, port: str) -> int:
    """The number of a port; without one, the first that the pod declares."""
    if port.isdecimal():
        return int(port[:5])
    declared = (one["containerPort"] for each in pod["spec"]["containers"] for one in each.get("ports") or ())
    return next(declared, _HTTP_PORT)


def with_links_below(prefix: str, page: str) -> str:
    """A page whose links to absolute paths lead through the proxy."""
    return _LINK.sub(lambda match: f"{match[1]}{prefix}{match[2]}", page)


def split_port(name: str) -> tuple[str, str]:
    """Name and port of `name`, `name:port` or `scheme:name:port`."""
    parts = name.split(":")
    if len(parts) == 3:
        return parts[1], parts[2]
    if len(parts) == 2 and parts[0] in ("http", "https"):
        return parts[1], ""
    return parts[0], parts[1] if len(parts) == 2 else ""
