"""Checks of an installation: each takes gathered facts and returns findings, every one with a remedy."""

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

from trimtab import __version__
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.disruption import DisruptionPolicy, Move
from trimtab.api.kinds.work import Binding
from trimtab.api.value import Raw
from trimtab.api.wording import plural, verb
from trimtab.cli.support.account_rights import Denial, Right
from trimtab.cli.support.definitions import UPGRADE, describe_outdated
from trimtab.client.service_account_tokens import read_claims
from trimtab.controllers.clusters.ownership import OWNED
from trimtab.controllers.conditions import find_condition
from trimtab.decide.freeze import format_freeze, freeze_of
from trimtab.members.agent_approval import requested_cluster
from trimtab.members.member_rights import describe_remedy, is_forbidden
from trimtab.runtime.leader_election import VERSION_ANNOTATION

Level = Literal["ok", "warning", "problem"]
OLDEST_MINOR = 30
CLOCK_TOLERANCE = timedelta(seconds=5)
EXPIRY_WARNING = timedelta(days=7)
STUCK_AFTER = timedelta(minutes=30)
ANSWERED_WITHIN = timedelta(minutes=2)
OLDEST_AGENT = 2
"""How many minor versions an agent may be behind the controllers."""
_VERSION = re.compile(r"(\d+)\.(\d+)")


class Finding(NamedTuple):
    """The result of one check."""

    level: Level
    check: str
    message: str
    remedy: str = ""


class WebhookFacts(NamedTuple):
    """A webhook configuration of Trimtab."""

    name: str
    is_trusted: bool
    """Whether API servers have a certificate authority for every webhook of it."""
    expiry: datetime | None = None
    """When the certificate of the server ends, where its Secret can be read."""
    failure: str = ""
    """Why the API server could not call it; empty if it answered, or if this user may not try."""


class Facts(NamedTuple):
    """What was read from the API server."""

    now: datetime
    version: Raw
    server_time: datetime | None
    missing_kinds: tuple[str, ...] = ()
    outdated_kinds: Mapping[str, list[str]] = {}
    """The fields that definitions on the API server lack."""
    denials: tuple[Denial, ...] = ()
    leases: tuple[Raw, ...] = ()
    """The Leases of the controllers, of all namespaces; the expected one first."""
    has_embedded_controllers: bool = False
    """Whether the controllers run in the process of the API server, as with `trimtab up`."""
    clusters: tuple[Cluster, ...] = ()
    bindings: tuple[Binding, ...] = ()
    moves: tuple[Move, ...] = ()
    cluster_tokens: Mapping[str, str] = {}
    """The token of each cluster that has a Secret."""
    client_certificate_expiry: datetime | None = None
    policy: DisruptionPolicy | None = None
    certificate_requests: tuple[Raw, ...] = ()
    webhooks: tuple[WebhookFacts, ...] = ()
    agent_versions: Mapping[str, str] = {}
    """The version of the agent of each Pull cluster, where it says so."""


def diagnose(facts: Facts) -> list[Finding]:
    """All findings, in the order in which problems should be solved."""
    checks = (
        check_version,
        check_agent_versions,
        check_clock,
        check_client_certificate,
        check_kinds,
        check_rights,
        check_webhooks,
        check_leader,
        check_freeze,
        check_clusters,
        check_owners,
        check_credentials,
        check_agents,
        check_bindings,
        check_moves,
    )
    return [finding for check in checks for finding in check(facts)]


def check_version(facts: Facts) -> Iterator[Finding]:
    version = str(facts.version.get("gitVersion", ""))
    minor = "".join(filter(str.isdigit, str(facts.version.get("minor", ""))))
    if minor.isdigit() and int(minor) >= OLDEST_MINOR:
        yield Finding("ok", "version", f"the API server has version {version}")
    else:
        yield Finding(
            "problem",
            "version",
            f"the API server has version {version or 'unknown'}; 1.{OLDEST_MINOR} is the oldest that works",
            "upgrade the API server",
        )


def check_agent_versions(facts: Facts) -> Iterator[Finding]:
    """Agents may be up to two minor versions older than the controllers, and never newer."""
    leading = next((found for lease in facts.leases if (found := version_of(lease))), __version__)
    for cluster, version in facts.agent_versions.items():
        behind = minor_versions_between(version, leading)
        if behind is None or 0 <= behind <= OLDEST_AGENT:
            continue
        if behind < 0:
            remedy = "upgrade the controllers; an agent must never be newer"
        else:
            remedy = f"upgrade the agent; it may be {OLDEST_AGENT} minor versions older at most"
        yield Finding(
            "problem", "version", f"the agent of {cluster} has version {version}, the controllers {leading}", remedy
        )


def version_of(lease: Raw) -> str:
    """The version of the process that wrote the Lease; empty if it does not say so."""
    return str((lease["metadata"].get("annotations") or {}).get(VERSION_ANNOTATION, ""))


def minor_versions_between(older: str, newer: str) -> int | None:
    """How many minor versions are between two versions, negative if `older` is the newer one; None if one is no version.

    Versions with different major numbers are as far apart as can be.
    """
    numbers = [_VERSION.match(text) for text in (older, newer)]
    if numbers[0] is None or numbers[1] is None:
        return None
    (major, minor), (other_major, other_minor) = ([int(part) for part in found.groups()] for found in numbers if found)
    if major != other_major:
        return OLDEST_AGENT + 1 if major < other_major else -1
    return other_minor - minor


def check_clock(facts: Facts) -> Iterator[Finding]:
    if facts.server_time is None:
        return
    # The server's time has whole seconds.
    gap = abs(facts.now - facts.server_time)
    if gap > CLOCK_TOLERANCE + timedelta(seconds=1):
        yield Finding(
            "problem",
            "clock",
            f"the clocks of this machine and of the API server differ by {gap.total_seconds():.0f} s",
            "synchronise both with NTP; leader election and time-outs depend on them",
        )
    else:
        yield Finding("ok", "clock", "the clocks of this machine and of the API server agree")


def check_client_certificate(facts: Facts) -> Iterator[Finding]:
    if (expiry := facts.client_certificate_expiry) is not None:
        yield _expiry_finding(
            "certificate", "the client certificate of the kubeconfig", expiry, facts.now, "issue a new kubeconfig"
        )


def _expiry_finding(check: str, what: str, expiry: datetime, now: datetime, remedy: str) -> Finding:
    if expiry <= now:
        return Finding("problem", check, f"{what} expired at {expiry:%Y-%m-%d %H:%M} UTC", remedy)
    if expiry - now <= EXPIRY_WARNING:
        return Finding("warning", check, f"{what} expires at {expiry:%Y-%m-%d %H:%M} UTC", remedy)
    return Finding("ok", check, f"{what} is valid until {expiry:%Y-%m-%d}")


def check_kinds(facts: Facts) -> Iterator[Finding]:
    if facts.missing_kinds:
        yield Finding(
            "problem",
            "kinds",
            f"the API server does not serve {_some(facts.missing_kinds)}",
            "install the chart trimtab-crds, or run `trimtab crds | kubectl apply --server-side -f -`",
        )
    else:
        yield Finding("ok", "kinds", "the API server serves all kinds of Trimtab")
    if facts.outdated_kinds:
        yield Finding(
            "problem",
            "kinds",
            f"the API server drops fields that its definitions lack: {describe_outdated(facts.outdated_kinds)}",
            f"{UPGRADE}; with Karmada's own definitions run the controllers with --profile upstream",
        )


def check_rights(facts: Facts) -> Iterator[Finding]:
    for denial in facts.denials:
        who = f"the account {denial.account} of the controllers" if denial.account else "this user"
        if not denial.rights:
            yield Finding("ok", "rights", f"{who} has all rights that the controllers need")
        elif denial.account:
            yield Finding(
                "problem",
                "rights",
                f"{who} may not {_some(map(_describe_right, denial.rights))}",
                "give it the role of the chart trimtab (`rbac.create`), or one with these rights; the controllers need no restart",
            )
        else:
            yield Finding(
                "warning",
                "rights",
                f"{who} may not {_some(map(_describe_right, denial.rights))}",
                "run the controllers as a user with the role of the chart trimtab; for reading alone this is no problem",
            )


def _describe_right(right: Right) -> str:
    where = f" in {right.namespace}" if right.namespace else ""
    return f"{right.verb} {right.resource}{'.' if right.group else ''}{right.group}{where}"


def check_webhooks(facts: Facts) -> Iterator[Finding]:
    remedy = "look at the log of the webhook; its pods make new certificates when its Secret is deleted and they are restarted"
    for webhook in facts.webhooks:
        if not webhook.is_trusted:
            yield Finding(
                "problem",
                "webhook",
                f"the webhook configuration {webhook.name} has no certificate authority: kinds that it checks cannot be changed",
                "start the webhook, which writes it, or let cert-manager do so; its log tells why it does not",
            )
        elif webhook.failure:
            yield Finding(
                "problem",
                "webhook",
                f"the API server cannot call the webhook {webhook.name}: {webhook.failure}",
                "look at the pods of the webhook and their log; while none answers, kinds that it checks cannot be changed "
                f"(to go on without it: kubectl delete validatingwebhookconfiguration,mutatingwebhookconfiguration {webhook.name})",
            )
        elif webhook.expiry is not None:
            yield _expiry_finding(
                "webhook", f"the certificate of the webhook {webhook.name}", webhook.expiry, facts.now, remedy
            )
        else:
            yield Finding("ok", "webhook", f"the webhook {webhook.name} has a certificate authority")


def check_leader(facts: Facts) -> Iterator[Finding]:
    leaders = [lease for lease in facts.leases if _is_held(lease)]
    if not leaders and facts.has_embedded_controllers:
        yield Finding("ok", "leader", "the controllers run in the API server (trimtab up)")
        return
    if not leaders:
        yield Finding(
            "warning",
            "leader",
            "no process holds the Lease of the controllers",
            "start `trimtab controllers --leader-elect`; without --leader-elect this is no problem",
        )
        return
    live = [lease for lease in leaders if not _is_expired(lease, facts.now)]
    if len(live) > 1:
        named = [f"{lease['spec']['holderIdentity']} in {lease['metadata']['namespace']}" for lease in live]
        yield Finding(
            "problem",
            "leader",
            f"{len(live)} control planes work on this API server: {_some(named)}",
            "stop all but one (`helm uninstall`, or scale its Deployment to 0); objects and workloads stay",
        )
    elif live:
        yield Finding("ok", "leader", f"{live[0]['spec']['holderIdentity']} leads")
    else:
        spec = leaders[0]["spec"]
        age = facts.now - datetime.fromisoformat(spec["renewTime"])
        yield Finding(
            "problem",
            "leader",
            f"{spec['holderIdentity']} leads but renewed the Lease last {age.total_seconds():.0f} s ago",
            "look at the logs of the controllers; another replica takes over when one runs",
        )


def _is_held(lease: Raw) -> bool:
    spec = lease.get("spec") or {}
    return bool(spec.get("holderIdentity")) and _time(spec.get("renewTime")) is not None


def _is_expired(lease: Raw, now: datetime) -> bool:
    spec = lease["spec"]
    duration = timedelta(seconds=float(spec.get("leaseDurationSeconds") or 15))
    return now - datetime.fromisoformat(spec["renewTime"]) > duration + CLOCK_TOLERANCE


def check_clusters(facts: Facts) -> Iterator[Finding]:
    unready = 0
    for cluster in facts.clusters:
        ready = next((found for found in cluster.status.conditions if found.type == "Ready"), None)
        if ready is None or ready.status != "True":
            unready += 1
            reason = f"{ready.reason}: {ready.message}" if ready else "it was never probed"
            yield Finding(
                "problem",
                "cluster",
                f"cluster {cluster.name} is not ready ({reason})",
                f"check its API server {cluster.spec.api_endpoint or '(of its agent)'} and its credentials"
                + (f" ({_renewal(cluster)} replaces them)" if cluster.spec.secret_ref else ""),
            )
    if not facts.clusters:
        yield Finding("warning", "cluster", "no cluster is joined", "run `trimtab join NAME --kubeconfig FILE`")
    elif not unready:
        yield Finding(
            "ok",
            "cluster",
            f"{len(facts.clusters)} of {plural(len(facts.clusters), 'cluster')} {verb(len(facts.clusters), 'is', 'are')} ready",
        )


def _renewal(cluster: Cluster) -> str:
    return f"`trimtab join {cluster.name} --kubeconfig FILE --renew`"


def check_owners(facts: Facts) -> Iterator[Finding]:
    """Members that no process serves; the condition is there only where several processes share the members."""
    unowned = [
        cluster.name
        for cluster in facts.clusters
        if (owned := find_condition(cluster.status.conditions, OWNED)) is not None and owned.status != "True"
    ]
    if unowned:
        yield Finding(
            "problem",
            "owner",
            f"no process serves {_some(unowned)}: nothing is applied there",
            "start more processes with the role push, and look at the logs of those that run",
        )


def check_freeze(facts: Facts) -> Iterator[Finding]:
    if (freeze := freeze_of(facts.policy)) is not None:
        yield Finding("warning", "freeze", format_freeze(freeze), "find out why, then run `trimtab thaw`")


def check_credentials(facts: Facts) -> Iterator[Finding]:
    expiring = 0
    for cluster in facts.clusters:
        if cluster.spec.secret_ref is None:
            continue
        token = facts.cluster_tokens.get(cluster.name)
        if token is None:
            yield Finding(
                "warning",
                "credentials",
                f"the Secret of cluster {cluster.name} is missing or cannot be read",
                f"give this user the right to read it, or replace it: {_renewal(cluster)}",
            )
        elif (claims := read_claims(token)) is not None:
            what = f"the token of cluster {cluster.name}"
            finding = _expiry_finding("credentials", what, claims.expires, facts.now, f"run {_renewal(cluster)}")
            expiring += finding.level != "ok"
            if finding.level != "ok":
                yield finding
    if facts.cluster_tokens and not expiring:
        yield Finding("ok", "credentials", f"the tokens of {plural(len(facts.cluster_tokens), 'cluster')} are valid")


def check_agents(facts: Facts) -> Iterator[Finding]:
    """Requests of agents for a certificate that nobody approved or signed."""
    for request in facts.certificate_requests:
        created = _time(request["metadata"].get("creationTimestamp"))
        cluster, status = requested_cluster(request["spec"]), request.get("status") or {}
        if not cluster or status.get("certificate") or created is None or facts.now - created < ANSWERED_WITHIN:
            continue
        name, decisions = request["metadata"]["name"], {one["type"] for one in status.get("conditions") or ()}
        if "Approved" in decisions:
            yield Finding(
                "problem",
                "agent",
                f"the certificate request {name} of the agent of {cluster} is approved and not signed",
                "this API server seems to sign no client certificates: use `trimtab join-command --tokens`",
            )
        elif not decisions:
            yield Finding(
                "problem",
                "agent",
                f"nobody has approved the certificate request {name} of the agent of {cluster}",
                "start the controllers with the right to approve (`rbac.approveAgents` of the chart); their log says why "
                f"they leave a request alone; to approve it by hand: kubectl certificate approve {name}",
            )


def check_bindings(facts: Facts) -> Iterator[Finding]:
    unscheduled = [
        f"{binding.spec.resource.kind}/{binding.spec.resource.name} ({condition.message})"
        for binding in facts.bindings
        for condition in binding.status.conditions
        if condition.type == "Scheduled" and condition.status == "False"
    ]
    if unscheduled:
        yield Finding(
            "problem",
            "workload",
            f"{len(unscheduled)} of {len(facts.bindings)} workloads {verb(len(unscheduled), 'has', 'have')} no placement: {_some(unscheduled, 3)}",
            "`trimtab explain KIND/NAME` tells why each cluster was refused",
        )
    elif facts.bindings:
        yield Finding(
            "ok",
            "workload",
            f"{len(facts.bindings)} of {plural(len(facts.bindings), 'workload')} {verb(len(facts.bindings), 'has', 'have')} a placement",
        )
    yield from _check_applied(facts)


def _check_applied(facts: Facts) -> Iterator[Finding]:
    """Copies that a member refused; those that were not sent yet have no message."""
    refused = [
        (item.cluster_name, f"{binding.spec.resource.kind}/{binding.spec.resource.name}", item.applied_message)
        for binding in facts.bindings
        for item in binding.status.aggregated_status
        if not item.applied and item.applied_message
    ]
    if not refused:
        return
    named = [f"{workload} in {cluster} ({message})" for cluster, workload, message in refused]
    forbidding = [cluster for cluster, _, message in refused if is_forbidden(message)]
    yield Finding(
        "problem",
        "workload",
        f"{plural(len(refused), 'copy', 'copies')} {verb(len(refused), 'is', 'are')} not applied: {_some(named, 3)}",
        describe_remedy(forbidding[0]) if forbidding else "correct the object, or its policy, as the message says",
    )


def check_moves(facts: Facts) -> Iterator[Finding]:
    stuck = [
        f"{move.spec.object.name} from {move.spec.from_}"
        for move in facts.moves
        if not move.status.outcome and move.status.started and facts.now - move.status.started > STUCK_AFTER
    ]
    if stuck:
        minutes = int(STUCK_AFTER.total_seconds() // 60)
        yield Finding(
            "problem",
            "move",
            f"{plural(len(stuck), 'move')} {verb(len(stuck), 'is', 'are')} in progress for more than {minutes} minutes: {_some(stuck, 3)}",
            "`trimtab explain KIND/NAME` tells what each waits for",
        )
    else:
        going = sum(not move.status.outcome for move in facts.moves)
        yield Finding("ok", "move", f"{plural(going, 'move')} {verb(going, 'is', 'are')} in progress, none for long")


def _time(text: object) -> datetime | None:
    try:
        return datetime.fromisoformat(str(text)) if text else None
    except ValueError:
        return None


def _some(items: Iterable[str], most: int = 5) -> str:
    named = list(items)
    more = f" and {len(named) - most} more" if len(named) > most else ""
    return ", ".join(named[:most]) + more
