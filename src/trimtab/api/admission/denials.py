"""The answers of the peers' admission webhooks to an invalid object: their names, codes and texts."""

from collections.abc import Sequence

from trimtab.api.field_errors import join_causes
from trimtab.errors import ApiError, BadRequest, Cause, Forbidden

_OCM_SUFFIX = "open-cluster-management.io"


def webhook_name(singular: str, group: str) -> str:
    """The name of the webhook that validates a kind; clients read it in the message."""
    if group.endswith("karmada.io"):
        return f"{singular}.karmada.io"
    if group.endswith(_OCM_SUFFIX):
        return f"{singular}validators.admission.{group}"
    return f"{singular}.{group}"


def denial(group: str, causes: Sequence[Cause]) -> ApiError:
    """The refusal of an invalid object: Open Cluster Management answers 400 and names no fields, Karmada 403."""
    if group.endswith(_OCM_SUFFIX):
        return BadRequest("\n".join(dict.fromkeys(cause.message for cause in causes)), causes=causes)
    return Forbidden(join_causes(causes), causes=causes)


def with_webhook_name(refusal: ApiError, singular: str, group: str) -> ApiError:
    """The refusal as kube-apiserver passes it on to the client."""
    text = f'admission webhook "{webhook_name(singular, group)}" denied the request: {refusal.message}'
    return type(refusal)(text, details=False)
