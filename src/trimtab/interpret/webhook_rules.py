"""Rules that users' webhooks implement: the requests to them, and what their answers mean.

Pure: a call that has no answer yet raises `AnswerPending`, as a script does, and the shell calls the webhook.
"""

import base64
import binascii
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from trimtab.api.patch.json_patch import apply_json_patch
from trimtab.api.paths import api_version_and_kind, indexed_objects, object_at, string_at, strings_in
from trimtab.api.value import Raw
from trimtab.errors import ApiError
from trimtab.interpret.operations import InterpreterError, InterpreterFailure, Operation

API_VERSION, CONTEXT_VERSION = "config.karmada.io/v1alpha1", "v1alpha1"
DEFAULT_SECONDS = 10
ANY = "*"


class WebhookQuestion(NamedTuple):
    """One call of a webhook."""

    configuration: str
    """Name of the configuration and of the webhook, for messages."""
    client_config: Raw
    seconds: int
    operation: str
    request: Raw
    """The request without its uid, which is derived from the content."""

    @property
    def hook(self) -> str:
        return self.operation

    @property
    def key(self) -> tuple[str, str, bytes]:
        """Equal keys are equal calls of the same webhook."""
        content = msgspec.json.encode([self.client_config, self.request])
        return self.configuration, self.operation, hashlib.blake2b(content, digest_size=16).digest()

    @property
    def uid(self) -> str:
        digits = self.key[2].hex()
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))

    @property
    def body(self) -> bytes:
        request = {"uid": self.uid, **self.request}
        kind = {"apiVersion": API_VERSION, "kind": "ResourceInterpreterContext"}
        return msgspec.json.encode({**kind, "request": request})


AskWebhook = Callable[[WebhookQuestion], "Raw | InterpreterFailure"]
"""The `response` of the webhook; raises `AnswerPending` while it is not known."""


class Webhook(NamedTuple):
    """One webhook of one configuration."""

    name: str
    client_config: Raw
    rules: tuple[Raw, ...]
    seconds: int

    def handles(self, gvk: tuple[str, str], operation: Operation) -> bool:
        group, _, version = gvk[0].rpartition("/")
        wanted = (("operations", str(operation)), ("apiGroups", group), ("apiVersions", version), ("kinds", gvk[1]))
        return any(
            all(text in listed or ANY in listed for field, text in wanted for listed in [strings_in(rule.get(field))])
            for rule in self.rules
        )


def webhooks_of(configuration: Raw) -> Iterable[Webhook]:
    for number, hook in indexed_objects(configuration.get("webhooks")):
        if CONTEXT_VERSION in strings_in(hook.get("interpreterContextVersions")):
            yield Webhook(
                f"{string_at(configuration, 'metadata', 'name')}/{string_at(hook, 'name')}/{number}",
                object_at(hook, "clientConfig"),
                tuple(rule for _, rule in indexed_objects(hook.get("rules"))),
                int(hook.get("timeoutSeconds") or DEFAULT_SECONDS),
            )


class WebhookRules:
    """Webhooks as a level of rules: the first by name that has a rule for kind and operation is called."""

    def __init__(self, configurations: Iterable[Raw], ask: AskWebhook) -> None:
        found = (hook for configuration in configurations for hook in webhooks_of(configuration))
        self._hooks = sorted(found, key=lambda hook: hook.name)
        self._ask = ask

    def _hook_for(self, gvk: tuple[str, str], operation: Operation) -> Webhook | None:
        return next((hook for hook in self._hooks if hook.handles(gvk, operation)), None)

    def interprets(self, gvk: tuple[str, str], operation: Operation) -> bool:
        return self._hook_for(gvk, operation) is not None

    def generation(self, gvk: tuple[str, str], operation: Operation) -> str:
        hook = self._hook_for(gvk, operation)
        return "" if hook is None else hashlib.sha256(msgspec.json.encode(hook)).hexdigest()[:16]

    def interpret(self, gvk: tuple[str, str], operation: Operation, arguments: Sequence[Any]) -> Any:
        hook = self._hook_for(gvk, operation)
        assert hook is not None
        source = f"webhook {hook.name}"
        question = WebhookQuestion(
            hook.name, hook.client_config, hook.seconds, str(operation), request_of(operation, arguments)
        )
        answer = self._ask(question)
        if isinstance(answer, InterpreterFailure):
            raise InterpreterError(answer, operation, source)
        try:
            return _RESULTS[operation](answer, arguments[0])
        except (ValueError, ApiError) as fault:
            raise InterpreterError(InterpreterFailure("BadResult", str(fault)), operation, source) from fault


def request_of(operation: Operation, arguments: Sequence[Any]) -> Raw:
    """The request for an operation; its object comes first among the arguments."""
    obj: Raw = arguments[0]
    group, _, version = api_version_and_kind(obj)[0].rpartition("/")
    request: Raw = {
        "kind": {"group": group, "version": version, "kind": obj.get("kind", "")},
        "name": string_at(obj, "metadata", "name"),
        "namespace": string_at(obj, "metadata", "namespace"),
        "operation": str(operation),
        "object": obj,
    }
    if operation is Operation.RETAIN:
        request["observedObject"] = arguments[1]
    elif operation is Operation.REVISE_REPLICA:
        request["replicas"] = arguments[1]
    elif operation is Operation.AGGREGATE_STATUS:
        request["aggregatedStatus"] = arguments[1]
    return request


def parse_answer(body: bytes, uid: str) -> Raw | InterpreterFailure:
    """The `response` of a webhook's answer, or why it is none."""
    try:
        context = msgspec.json.decode(body, type=dict)
    except msgspec.DecodeError as fault:
        return InterpreterFailure("BadResult", f"received invalid webhook response: {fault}")
    response = context.get("response")
    if not isinstance(response, dict):
        return InterpreterFailure("BadResult", "received invalid webhook response: webhook response was absent")
    if response.get("uid") != uid:
        text = f'expected response.uid "{uid}", got "{response.get("uid")}"'
        return InterpreterFailure("BadResult", f"received invalid webhook response: {text}")
    if not response.get("successful"):
        status = object_at(response, "status")
        text = f"webhook call failed, get status code: {status.get('code', 0)}, msg: {status.get('message', '')}"
        return InterpreterFailure("WebhookFailed", text)
    return response


def _required_field(response: Raw, field: str) -> Any:
    if response.get(field) is None:
        raise ValueError(f"webhook returned nil response.{field}")
    return response[field]


def _replicas(response: Raw, _: Raw) -> tuple[int, Raw | None]:
    return int(_required_field(response, "replicas")), response.get("replicaRequirements")


def _dependencies(response: Raw, _: Raw) -> list[Raw]:
    found = list(response.get("dependencies") or ())
    for one in found:
        if not string_at(one, "apiVersion") or not string_at(one, "kind"):
            raise ValueError("dependency missing required apiVersion or kind")
        if not string_at(one, "name") and not one.get("labelSelector"):
            raise ValueError("dependency can not leave name and labelSelector all empty")
    return found


def _apply_patch_of(response: Raw, obj: Raw) -> Raw:
    """The object with the patch of the response; without a patch it stays as it is."""
    patch, patch_type = response.get("patch"), response.get("patchType")
    if not patch and not patch_type:
        return obj
    if patch_type != "JSONPatch" or not patch:
        raise ValueError(f'webhook returned invalid response.patchType of "{patch_type}", or no patch')
    try:
        operations = msgspec.json.decode(base64.b64decode(patch, validate=True))
    except (binascii.Error, msgspec.DecodeError) as fault:
        raise ValueError(f"webhook returned an invalid patch: {fault}") from fault
    patched: Raw = apply_json_patch(obj, operations) if operations else obj
    return patched


_RESULTS: Mapping[Operation, Callable[[Raw, Raw], Any]] = {
    Operation.REPLICA: _replicas,
    Operation.COMPONENT: lambda response, _: response.get("components"),
    Operation.DEPENDENCY: _dependencies,
    Operation.REVISE_REPLICA: _apply_patch_of,
    Operation.RETAIN: _apply_patch_of,
    Operation.AGGREGATE_STATUS: _apply_patch_of,
    Operation.STATUS: lambda response, _: _required_field(response, "rawStatus"),
    Operation.HEALTH: lambda response, _: bool(_required_field(response, "healthy")),
}
