"""Calls users' interpreter webhooks over HTTPS."""

import asyncio
from collections.abc import Callable

from trimtab.api.paths import object_at, string_at
from trimtab.api.value import Raw
from trimtab.interpret.operations import InterpreterFailure
from trimtab.interpret.webhook_rules import WebhookQuestion, parse_answer
from trimtab.server.admission.dynamic.service_calls import with_timeout
from trimtab.server.admission.dynamic.webhook_calls import CallFailed, post_review, tls_context

FindService = Callable[[str, str], Raw | None]
"""The Service of the control plane with a namespace and a name."""


class InterpreterWebhooks:
    """Finds the address of a webhook and sends the request to it."""

    def __init__(self, find_service: FindService) -> None:
        self._find_service = find_service

    async def call(self, question: WebhookQuestion) -> Raw | InterpreterFailure:
        try:
            url = webhook_url(question.client_config, self._find_service)
            async with asyncio.timeout(question.seconds):
                body = await post_review(
                    with_timeout(url, question.seconds), question.body, tls_context(question.client_config)
                )
        except CallFailed as fault:
            return InterpreterFailure("WebhookUnavailable", str(fault))
        except TimeoutError:
            return InterpreterFailure("DeadlineExceeded", f"the webhook did not answer in {question.seconds} seconds")
        return parse_answer(body, question.uid)


def webhook_url(client_config: Raw, find_service: FindService) -> str:
    """The address of a webhook; a Service wins over a URL, and one that is unknown here has its name in the cluster."""
    reference = object_at(client_config, "service")
    if not reference:
        return string_at(client_config, "url")
    namespace, name = string_at(reference, "namespace"), string_at(reference, "name")
    port, path = int(reference.get("port") or 443), string_at(reference, "path").lstrip("/")
    service = find_service(namespace, name)
    return f"https://{service_host(service, namespace, name, port)}:{port}/{path}"


def service_host(service: Raw | None, namespace: str, name: str, port: int) -> str:
    if service is None:
        return f"{name}.{namespace}.svc"
    spec = object_at(service, "spec")
    if spec.get("type") == "ExternalName":
        return string_at(spec, "externalName")
    address = string_at(spec, "clusterIP")
    if address in ("", "None"):
        raise CallFailed(f'cannot route to service {namespace}/{name} with ClusterIP "{address}"')
    if all(one.get("port") != port for one in spec.get("ports") or ()):
        raise CallFailed(f"no service port {port} found for service {name}")
    return f"[{address}]" if ":" in address else address
