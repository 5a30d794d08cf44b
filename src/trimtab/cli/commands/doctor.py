"""`trimtab doctor`: check an installation and say what to do about each problem."""

import base64
import json
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TypeVar

import click
from cryptography import x509

from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.disruption import DisruptionBudget, DisruptionPolicy, Move
from trimtab.api.kinds.work import Binding, ClusterResourceBinding, ResourceBinding
from trimtab.api.value import Object, Raw
from trimtab.cli.commands.crds import custom_kinds
from trimtab.cli.support.account_rights import find_denials
from trimtab.cli.support.client import kubeconfig_options, with_client
from trimtab.cli.support.definitions import outdated_kinds
from trimtab.cli.support.diagnosis import Facts, Finding, WebhookFacts, diagnose, version_of
from trimtab.cli.support.options.lease_namespace import find_leases, lease_namespace_option
from trimtab.cli.support.output import format_structured, output_option
from trimtab.cli.support.server_state import options_of_server
from trimtab.client.client import Client, resource_of
from trimtab.client.freeze import WHO_AM_I, find_disruption_policy
from trimtab.client.kubeconfig import load
from trimtab.client.lookups import list_typed
from trimtab.errors import ApiError
from trimtab.members.join import CLUSTER_NAMESPACE, SECRETS
from trimtab.runtime.leader_election import LEASES
from trimtab.server.auth.request_signing import REQUESTS
from trimtab.tables import format_table
from trimtab.webhook.certificates import CONFIGURATIONS

BUDGETS = resource_of(kind_of(DisruptionBudget))
CALL_FAILED = "failed calling webhook"
VALIDATING = CONFIGURATIONS[1]
T = TypeVar("T", bound=Object)


@click.command()
@kubeconfig_options
@lease_namespace_option("for users who may not list all")
@output_option
def command(kubeconfig: str, context: str, lease_namespace: str, output: str) -> None:
    """Check connectivity, versions, rights, clocks, certificates, clusters, workloads and moves.

    Exits with 1 if there is a problem.
    """
    expiry = client_certificate_expiry(load(kubeconfig or None, context).cert)

    async def work(client: Client) -> list[Finding]:
        try:
            facts = await gather_facts(client, lease_namespace)
        except (OSError, TimeoutError, ApiError, ValueError) as fault:
            return [connectivity_finding(fault)]
        return diagnose(facts._replace(client_certificate_expiry=expiry))

    findings = with_client(kubeconfig, context, work)
    if output in ("json", "yaml"):
        click.echo(format_structured([finding._asdict() for finding in findings], output))
    elif output == "name":
        click.echo("\n".join(f"{finding.level}/{finding.check}" for finding in findings))
    else:
        print_findings(findings)
    sys.exit(any(finding.level == "problem" for finding in findings))


def connectivity_finding(fault: Exception) -> Finding:
    """Why nothing else could be checked."""
    if isinstance(fault, ApiError):
        why, remedy = f"the API server refuses this user: {fault.message}", "use a kubeconfig with valid credentials"
    elif isinstance(fault, ValueError):
        why, remedy = "what answers is no API server", "check the address in the kubeconfig"
    else:
        why = f"the API server cannot be reached: {str(fault) or type(fault).__name__}"
        remedy = "check that it runs, the address in the kubeconfig, and the network"
    return Finding("problem", "connectivity", why, remedy)


def print_findings(findings: Iterable[Finding]) -> None:
    rows = [(finding.level.upper(), finding.check, finding.message) for finding in findings]
    click.echo(format_table(("RESULT", "CHECK", "MESSAGE"), rows))
    remedies = [f"  {finding.check}: {finding.remedy}" for finding in findings if finding.remedy]
    if remedies:
        click.echo("\nWhat to do:\n" + "\n".join(remedies))


async def gather_facts(client: Client, lease_namespace: str) -> Facts:
    version = json.loads((await client.fetch("/version")).body)
    served = {resource.id for resource in await client.resources()}
    missing = tuple(sorted(kind.id for kind in custom_kinds() if kind.id not in served))
    clusters = await _list(client, Cluster)
    leases = await find_leases(client, lease_namespace)
    bindings: list[Binding] = [*await _list(client, ResourceBinding), *await _list(client, ClusterResourceBinding)]
    return Facts(
        now=datetime.now(UTC),
        version=version,
        server_time=await server_time(client),
        missing_kinds=missing,
        denials=tuple(await find_denials(client, [lease["metadata"]["namespace"] for lease in leases])),
        outdated_kinds=await read_outdated(client),
        leases=leases,
        has_embedded_controllers=bool((await options_of_server(client)).profile),
        clusters=tuple(clusters),
        bindings=tuple(bindings),
        moves=tuple(await _list(client, Move)),
        cluster_tokens=await read_tokens(client, clusters),
        policy=await read_policy(client),
        certificate_requests=tuple(await read_requests(client)),
        webhooks=await read_webhooks(client),
        agent_versions=await read_agent_versions(client, clusters),
    )


async def _list(client: Client, type_: type[T]) -> list[T]:
    """All objects of a type; none if the kind is not served or may not be read."""
    try:
        return await list_typed(client, type_, if_served=True)
    except ApiError:
        return []


async def read_policy(client: Client) -> DisruptionPolicy | None:
    try:
        return await find_disruption_policy(client)
    except ApiError:
        return None


async def read_requests(client: Client) -> Sequence[Raw]:
    try:
        return (await client.list(REQUESTS)).items
    except ApiError:
        return ()


async def read_webhooks(client: Client) -> tuple[WebhookFacts, ...]:
    """The webhook configurations of Trimtab, with the end of the certificate that its Service shows."""
    try:
        found = (await client.list(VALIDATING)).items
    except ApiError:
        return ()
    facts = []
    failure = await call_failure(client)
    for configuration in found:
        hooks = [hook for hook in configuration.get("webhooks") or () if hook["name"].endswith(".trimtab.dev")]
        if not hooks:
            continue
        is_trusted = all(hook["clientConfig"].get("caBundle") for hook in hooks)
        service = hooks[0]["clientConfig"].get("service") or {}
        expiry = await certificate_expiry(
            client, service.get("namespace", ""), f"{service.get('name', '')}-certificates"
        )
        facts.append(WebhookFacts(configuration["metadata"]["name"], is_trusted, expiry, failure))
    return tuple(facts)


async def call_failure(client: Client) -> str:
    """Why the API server cannot call the webhook, found by a request that stores nothing; empty if nothing failed."""
    budget = {
        "apiVersion": BUDGETS.api_version,
        "kind": BUDGETS.kind,
        "metadata": {"namespace": "default", "name": "trimtab-doctor"},
        "spec": {"selector": {}, "maxUnavailable": 1},
    }
    try:
        await client.create(BUDGETS, budget, dry_run=True)
    except ApiError as fault:
        _, found, why = fault.message.partition(CALL_FAILED)
        return found + why
    return ""


async def read_agent_versions(client: Client, clusters: Iterable[Cluster]) -> dict[str, str]:
    """The versions that the agents of Pull clusters wrote into their Leases."""
    versions = {}
    for cluster in clusters:
        if cluster.spec.sync_mode != "Pull":
            continue
        try:
            versions[cluster.name] = version_of(await client.get(LEASES, CLUSTER_NAMESPACE, cluster.name))
        except ApiError:
            continue
    return versions


async def certificate_expiry(client: Client, namespace: str, secret: str) -> datetime | None:
    if not namespace:
        return None
    try:
        data = (await client.get(SECRETS, namespace, secret)).get("data") or {}
        return client_certificate_expiry(base64.b64decode(data["tls.crt"]))
    except (ApiError, KeyError, ValueError):
        return None


async def server_time(client: Client) -> datetime | None:
    """The time stamp that the API server gives to a review."""
    body = {"apiVersion": WHO_AM_I.api_version, "kind": WHO_AM_I.kind, "metadata": {}}
    try:
        review = await client.create(WHO_AM_I, body)
    except ApiError:
        return None
    stamp = (review.get("metadata") or {}).get("creationTimestamp")
    return datetime.fromisoformat(stamp) if stamp else None


async def read_outdated(client: Client) -> dict[str, list[str]]:
    try:
        return await outdated_kinds(client, custom_kinds())
    except ApiError:
        return {}


async def read_tokens(client: Client, clusters: Iterable[Cluster]) -> dict[str, str]:
    """The tokens of the clusters, for their expiry; they are not printed."""
    tokens = {}
    for cluster in clusters:
        if (ref := cluster.spec.secret_ref) is None:
            continue
        try:
            secret = await client.get(SECRETS, ref.namespace, ref.name)
            tokens[cluster.name] = base64.b64decode(secret["data"]["token"]).decode()
        except (ApiError, KeyError, ValueError):
            continue
    return tokens


def client_certificate_expiry(certificate: bytes) -> datetime | None:
    return x509.load_pem_x509_certificate(certificate).not_valid_after_utc if certificate else None
