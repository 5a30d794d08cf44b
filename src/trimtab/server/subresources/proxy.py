"""The subresource `proxy` of pods, services and nodes: forwards a request to a container or a kubelet."""

from urllib.parse import unquote

from trimtab.api.value import Raw
from trimtab.errors import Unavailable
from trimtab.server import api_errors
from trimtab.server.admission.dynamic.service_calls import ServiceCalls
from trimtab.server.registry.resource_store import ResourceStore
from trimtab.server.request.messages import Request, Response
from trimtab.server.resources import ObjectPath
from trimtab.server.subresources.pod_runtime import PodRuntime

_PLAIN_TEXT = "text/plain; charset=utf-8"
_KUBELET_PORTS = ("", "10250")


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
        path = "/" + where.subresource.partition("/")[2]
        kind = where.served.kind.id
        if kind == "nodes":
            return self._node_response(request, name, port, unquote(path))
        pod = found if kind == "pods" else self._pod_of_service(target)
        answer = (
            self._runtime.respond(pod, port, unquote(path), request.body) if self._runtime is not None and pod else None
        )
        if answer is None:
            subject = "service" if kind == "services" else "pod"
            raise Unavailable(f'no endpoints available for {subject} "{name}"')
        return Response(answer.status, answer.body.encode(), _PLAIN_TEXT)

    def _pod_of_service(self, where: ObjectPath) -> Raw | None:
        pods = (address.pod for address in self._calls.endpoints(where.namespace, where.name))
        return next((pod for pod in pods if pod is not None), None)

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


def split_port(name: str) -> tuple[str, str]:
    """Name and port of `name`, `name:port` or `scheme:name:port`."""
    parts = name.split(":")
    if len(parts) == 3:
        return parts[1], parts[2]
    if len(parts) == 2 and parts[0] in ("http", "https"):
        return parts[1], ""
    return parts[0], parts[1] if len(parts) == 2 else ""
