"""Approves the certificate requests of pull agents.

A request is approved if it asks for the identity of one agent and nothing else, if that agent, or the account of
`trimtab join-command` for its cluster, is who asks, and if the cluster is joined in pull mode. Everything else is left to others.
"""

import logging

from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.value import Raw
from trimtab.client.client import Client, resource_of
from trimtab.client.following import follow
from trimtab.clock import Clock
from trimtab.errors import ApiError, NotFound
from trimtab.members.agent_access import (
    AGENT_GROUP,
    AGENT_PREFIX,
    LIFETIME_SECONDS,
    bootstrap_account_of,
    user_of,
)
from trimtab.members.join import CLUSTER_NAMESPACE
from trimtab.server.auth.request_signing import CLIENT_SIGNER, REQUESTS, approved_request, requested_subject

USAGES = frozenset({"digital signature", "client auth"})
log = logging.getLogger("trimtab.members")


class AgentApproval:
    """Follows the requests on the host; a process that decides runs it."""

    def __init__(self, host: Client, clock: Clock) -> None:
        self._host = host
        self._clock = clock

    async def run(self) -> None:
        await follow(self._host, REQUESTS, self.handle_request, log)

    async def handle_request(self, request: Raw) -> None:
        """Approve a request of an agent that nobody has decided about."""
        if (request.get("status") or {}).get("conditions") or not (cluster := requested_cluster(request["spec"])):
            return
        fields = {"request": request["metadata"]["name"], "cluster": cluster}
        try:
            if why := refusal(request["spec"], cluster) or await self._refusal_of_cluster(cluster):
                log.warning("a certificate request is not approved: %s", why, extra=fields)
                return
            message = f"the agent of cluster {cluster} asks for its own certificate"
            approved = approved_request(request, "TrimtabAgent", message, self._clock.now())
            await self._host.replace(REQUESTS, approved, subresource="approval", manager="trimtab-agent-approval")
            log.info("approved a certificate request", extra=fields)
        except ApiError as fault:  # its next change, or the next list, starts another attempt
            log.warning("a certificate request cannot be approved: %s", fault, extra=fields)

    async def _refusal_of_cluster(self, name: str) -> str:
        try:
            cluster = await self._host.get(resource_of(kind_of(Cluster)), "", name)
        except NotFound:
            return "there is no such cluster"
        if (cluster.get("spec") or {}).get("syncMode") != "Pull":
            return "the cluster is not joined in pull mode"
        return "the cluster is being removed" if cluster["metadata"].get("deletionTimestamp") else ""


def requested_cluster(spec: Raw) -> str:
    """The cluster of the agent whose certificate is requested; empty if it is not one of an agent."""
    if spec.get("signerName") != CLIENT_SIGNER or (subject := requested_subject(spec)) is None:
        return ""
    agents = [name.removeprefix(AGENT_PREFIX) for name in subject.names if name.startswith(AGENT_PREFIX)]
    return agents[0] if agents else ""


def refusal(spec: Raw, cluster: str) -> str:
    """Why a request for the certificate of an agent is not approved; empty if it is."""
    subject = requested_subject(spec)
    if subject is None or subject.names != (user_of(cluster),) or subject.groups != (AGENT_GROUP,):
        return f"the subject is not the user {user_of(cluster)} in the group {AGENT_GROUP} alone"
    if subject.has_other_names:
        return "it asks for subject alternative names"
    if set(spec.get("usages") or ()) != USAGES:
        return f"its usages are not {' and '.join(sorted(USAGES))}"
    if not 0 < (spec.get("expirationSeconds") or 0) <= LIFETIME_SECONDS:
        return f"it asks for no limited lifetime up to {LIFETIME_SECONDS} seconds"
    bootstrap = f"system:serviceaccount:{CLUSTER_NAMESPACE}:{bootstrap_account_of(cluster)}"
    if spec.get("username") not in (user_of(cluster), bootstrap):
        return f"{spec.get('username')} is not the agent of the cluster"
    return ""
