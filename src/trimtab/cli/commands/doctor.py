"""`trimtab doctor`: check an installation and say what to do about each problem."""

import base64
import json
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TypeVar

import click
from cryptography import x509

from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.disruption import DisruptionPolicy, Move
from trimtab.api.kinds.work import Binding, ClusterResourceBinding, ResourceBinding
from trimtab.api.value import Object, Raw
from trimtab.cli.commands.crds import custom_kinds
from trimtab.cli.support.client import kubeconfig_options, with_client
from trimtab.cli.support.definitions import outdated_kinds
from trimtab.cli.support.diagnosis import CONTROLLER_RIGHTS, Facts, Finding, Right, WebhookFacts, diagnose
from trimtab.cli.support.options.lease_namespace import lease_namespace_option, possible_namespaces
from trimtab.cli.support.output import format_structured, output_option
from trimtab.client.client import Client, Resource
from trimtab.client.freeze import WHO_AM_I, find_disruption_policy
from trimtab.client.kubeconfig import load
from trimtab.client.lookups import list_typed
from trimtab.errors import ApiError
from trimtab.members.join import SECRETS
from trimtab.runtime.leader_election import LEASES
from trimtab.server.auth.request_signing import REQUESTS
from trimtab.tables import format_table
from trimtab.webhook.certificates import CONFIGURATIONS

REVIEWS = Resource("authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", False)
LEASE_NAME = "trimtab-controllers"
VALIDATING = CONFIGURATIONS[1]
T = TypeVar("T", bound=Object)


@click.command()
@kubeconfig_options
@lease_namespace_option("for users who may not list all")
@output_option("table", "name", "json", "yaml")
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
    bindings: list[Binding] = [*await _list(client, ResourceBinding), *await _list(client, ClusterResourceBinding)]
    return Facts(
        now=datetime.now(UTC),
        version=version,
        server_time=await server_time(client),
        missing_kinds=missing,
        denied=tuple([right for right in CONTROLLER_RIGHTS if not await is_allowed(client, right)]),
        outdated_kinds=await read_outdated(client),
        leases=await find_leases(client, possible_namespaces(lease_namespace)),
        clusters=tuple(clusters),
        bindings=tuple(bindings),
        moves=tuple(await _list(client, Move)),
        cluster_tokens=await read_tokens(client, clusters),
        policy=await read_policy(client),
        certificate_requests=tuple(await read_requests(client)),
        webhooks=await read_webhooks(client),
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
    for configuration in found:
        hooks = [hook for hook in configuration.get("webhooks") or () if hook["name"].endswith(".trimtab.dev")]
        if not hooks:
            continue
        is_trusted = all(hook["clientConfig"].get("caBundle") for hook in hooks)
        service = hooks[0]["clientConfig"].get("service") or {}
        expiry = await certificate_expiry(
            client, service.get("namespace", ""), f"{service.get('name', '')}-certificates"
        )
        facts.append(WebhookFacts(configuration["metadata"]["name"], is_trusted, expiry))
    return tuple(facts)


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


async def is_allowed(client: Client, right: Right) -> bool:
    attributes = {"verb": right.verb, "group": right.group, "resource": right.resource}
    spec = {"resourceAttributes": attributes}
    body = {"apiVersion": REVIEWS.api_version, "kind": REVIEWS.kind, "metadata": {}, "spec": spec}
    try:
        return bool((await client.create(REVIEWS, body))["status"]["allowed"])
    except ApiError:
        return False


async def read_outdated(client: Client) -> dict[str, list[str]]:
    try:
        return await outdated_kinds(client, custom_kinds())
    except ApiError:
        return {}


async def find_leases(client: Client, namespaces: Sequence[str]) -> tuple[Raw, ...]:
    """The Leases of controllers in all namespaces, or in these ones if this user may not list all."""
    try:
        found = (await client.list(LEASES, fields=f"metadata.name={LEASE_NAME}")).items
        return tuple(sorted(found, key=lambda lease: lease["metadata"]["namespace"] not in namespaces))
    except ApiError:
        return tuple([lease for namespace in namespaces if (lease := await find_lease(client, namespace))])


async def find_lease(client: Client, namespace: str) -> Raw | None:
    try:
        return await client.get(LEASES, namespace, LEASE_NAME)
    except ApiError:
        return None


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
