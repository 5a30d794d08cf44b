"""Approves moves that wait for a person, for commands and the console."""

from trimtab.api.kind import kind_of
from trimtab.api.kinds.work import Binding
from trimtab.client.client import Client, resource_of
from trimtab.controllers.movement.approval import text_of
from trimtab.controllers.well_known import APPROVED_MOVE
from trimtab.errors import InputError


async def approve_move(client: Client, binding: Binding) -> str:
    """Approve exactly the move that the binding shows, and return its text; a binding without one raises InputError.

    The resourceVersion is not checked: an approval names its move, so it releases no other one.
    """
    pending = binding.status.pending_approval
    if pending is None:
        resource = binding.spec.resource
        raise InputError(f"{resource.kind} {resource.namespace}/{resource.name} has no move that waits for an approval")
    text = text_of(pending)
    patch = {"metadata": {"annotations": {APPROVED_MOVE: text}}}
    await client.patch(resource_of(kind_of(binding)), binding.namespace, binding.name, patch, manager="trimtab-approve")
    return text
