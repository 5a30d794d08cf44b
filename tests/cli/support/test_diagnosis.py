"""Every check of the installation finds its problem, and is quiet without it."""

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.disruption import DisruptionPolicy, DisruptionPolicySpec, Freeze, Move
from trimtab.api.kinds.work import ResourceBinding
from trimtab.cli.support.account_rights import Denial, Right
from trimtab.cli.support.diagnosis import Facts, Finding, WebhookFacts, diagnose, minor_versions_between
from trimtab.members.agent_credentials import certificate_request

NOW = datetime(2026, 1, 1, tzinfo=UTC)
VERSION = {"gitVersion": "v1.32.0", "minor": "32"}


def lease(holder: str = "a", renewed: str = NOW.isoformat(), namespace: str = "trimtab-system") -> dict[str, Any]:
    spec = {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": 15}
    return {"metadata": {"namespace": namespace, "name": "trimtab-controllers"}, "spec": spec}


def token(expiry: datetime) -> str:
    claims = {"sub": "system:serviceaccount:ns:name", "iat": 0, "exp": expiry.timestamp()}
    return f"head.{base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip('=')}.signature"


def cluster(ready: str, owned: str = "") -> Cluster:
    conditions = [{"type": "Ready", "status": ready, "reason": "Probed", "message": "answer"}]
    raw = {
        "metadata": {"name": "member1"},
        "spec": {"syncMode": "Push", "secretRef": {"namespace": "karmada-cluster", "name": "member1"}},
        "status": {"conditions": conditions + ([{"type": "Owned", "status": owned}] if owned else [])},
    }
    return decode(Cluster, raw)


def decode(type_: Any, raw: dict[str, Any]) -> Any:
    kind = kind_of(type_)
    return kind.decode({"apiVersion": kind.api_version, "kind": kind.name, **raw})


def binding(scheduled: str, refusal: str = "") -> ResourceBinding:
    condition = {"type": "Scheduled", "status": scheduled, "reason": "x", "message": "no cluster fits"}
    raw = {
        "metadata": {"name": "web-deployment", "namespace": "default"},
        "spec": {"resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
        "status": {
            "conditions": [condition],
            "aggregatedStatus": [{"clusterName": "member1", "applied": not refusal, "appliedMessage": refusal}],
        },
    }
    return decode(ResourceBinding, raw)


def move(started: datetime) -> Move:
    spec = {"object": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "from": "member1", "replicas": 1}
    raw = {"metadata": {"name": "m", "namespace": "default"}, "spec": {"cause": "Rebalance", **spec}}
    return decode(Move, {**raw, "status": {"started": started.strftime("%Y-%m-%dT%H:%M:%S.%fZ")}})


def request(age: str, *decisions: str, **status: str) -> dict[str, Any]:
    """A request for the certificate of an agent, of this age in minutes and seconds."""
    asked = certificate_request("east", ec.generate_private_key(ec.SECP256R1()))
    minutes, seconds = map(int, age.split(":"))
    created = (NOW - timedelta(minutes=minutes, seconds=seconds)).isoformat()
    conditions = [{"type": one, "status": "True"} for one in decisions]
    metadata = {**asked["metadata"], "creationTimestamp": created}
    return {**asked, "metadata": metadata, "status": {"conditions": conditions, **status}}


HEALTHY = Facts(
    now=NOW,
    version=VERSION,
    server_time=NOW - timedelta(seconds=1),
    denials=(Denial("", ()),),
    leases=(lease(),),
    clusters=(cluster("True"),),
    bindings=(binding("True"),),
    moves=(move(NOW - timedelta(minutes=1)),),
    cluster_tokens={"member1": token(NOW + timedelta(days=300))},
    client_certificate_expiry=NOW + timedelta(days=300),
)


def unhealthy(facts: Facts) -> list[Finding]:
    return [finding for finding in diagnose(facts) if finding.level != "ok"]


def test_healthy_installation_has_no_problem_and_every_check_reports() -> None:
    findings = diagnose(HEALTHY)
    assert unhealthy(HEALTHY) == []
    assert len({finding.check for finding in findings}) == 10


PROBLEMS = {
    "version": HEALTHY._replace(version={"gitVersion": "v1.27.3", "minor": "27+"}),
    "clock": HEALTHY._replace(server_time=NOW - timedelta(seconds=30)),
    "certificate": HEALTHY._replace(client_certificate_expiry=NOW + timedelta(days=2)),
    "kinds": HEALTHY._replace(missing_kinds=("works.work.karmada.io",)),
    "rights": HEALTHY._replace(denials=(Denial("", (Right("create", "work.karmada.io", "works"),)),)),
    "leader": HEALTHY._replace(leases=(lease(renewed="2025-12-31T23:00:00Z"),)),
    "cluster": HEALTHY._replace(clusters=(cluster("False"),)),
    "credentials": HEALTHY._replace(cluster_tokens={"member1": token(NOW - timedelta(days=1))}),
    "webhook": HEALTHY._replace(webhooks=(WebhookFacts("trimtab-webhook", False, None),)),
    "agent": HEALTHY._replace(certificate_requests=(request("10:00"),)),
    "workload": HEALTHY._replace(bindings=(binding("False"),)),
    "move": HEALTHY._replace(moves=(move(NOW - timedelta(hours=2)),)),
}


@pytest.mark.parametrize("check", PROBLEMS)
def test_each_problem_is_found_once_with_a_remedy(check: str) -> None:
    (finding,) = unhealthy(PROBLEMS[check])
    assert finding.check == check
    assert finding.remedy


def test_missing_leader_and_empty_fleet_are_warnings() -> None:
    found = unhealthy(HEALTHY._replace(leases=(), clusters=(), cluster_tokens={}))
    assert [(finding.check, finding.level) for finding in found] == [("leader", "warning"), ("cluster", "warning")]


def test_controllers_inside_the_api_server_need_no_lease() -> None:
    assert unhealthy(HEALTHY._replace(leases=(), has_embedded_controllers=True)) == []


def test_two_control_planes_on_one_api_server_are_a_problem() -> None:
    old = lease("old", "2025-12-31T23:00:00Z", "earlier")
    assert unhealthy(HEALTHY._replace(leases=(old, lease()))) == []
    (finding,) = unhealthy(HEALTHY._replace(leases=(lease(), lease("b", namespace="other"), old)))
    assert finding.message == "2 control planes work on this API server: a in trimtab-system, b in other"
    assert finding.level == "problem"


@pytest.mark.parametrize(
    ("refusal", "remedy"),
    [
        ('deployments.apps is forbidden: User "a" cannot create', "trimtab join member1 --kinds default,PLURAL.GROUP"),
        ("spec.replicas: Invalid value", "correct the object"),
    ],
)
def test_copies_that_a_member_refuses_are_a_problem(refusal: str, remedy: str) -> None:
    findings = diagnose(HEALTHY._replace(bindings=(binding("True", refusal),)))
    (finding,) = [found for found in findings if found.level == "problem"]
    assert finding.message == f"1 copy is not applied: Deployment/web in member1 ({refusal})"
    assert remedy in finding.remedy


def test_definitions_that_lack_fields_are_a_problem() -> None:
    lacking = {"resourcebindings.work.karmada.io": ["status.holds", "status.decision"]}
    (finding,) = unhealthy(HEALTHY._replace(outdated_kinds=lacking))
    assert "resourcebindings.work.karmada.io lacks status.holds and 1 more fields" in finding.message
    assert "trimtab-crds" in finding.remedy


def test_certificate_of_the_webhook_is_checked() -> None:
    soon, late = (WebhookFacts("hook", True, NOW + timedelta(days=days)) for days in (3, 20))
    (finding,) = unhealthy(HEALTHY._replace(webhooks=(soon,)))
    assert (finding.level, finding.check) == ("warning", "webhook")
    assert unhealthy(HEALTHY._replace(webhooks=(late, WebhookFacts("elsewhere", True)))) == []


def test_unreadable_secret_is_named() -> None:
    (finding,) = unhealthy(HEALTHY._replace(cluster_tokens={}))
    assert "the Secret of cluster member1 is missing" in finding.message


def test_freeze_and_members_that_nobody_serves_are_reported() -> None:
    frozen = DisruptionPolicy(spec=DisruptionPolicySpec(freeze=Freeze(reason="rehearsal")))
    unowned = cluster("True", owned="False")
    findings = {finding.check: finding for finding in diagnose(HEALTHY._replace(policy=frozen, clusters=(unowned,)))}
    assert findings["freeze"].level == "warning"
    assert "(rehearsal)" in findings["freeze"].message
    assert findings["owner"].message == "no process serves member1: nothing is applied there"


@pytest.mark.parametrize(
    ("asked", "what"),
    [
        (request("10:00"), "nobody has approved"),
        (request("10:00", "Approved"), "is approved and not signed"),
        (request("0:30"), ""),
        (request("10:00", "Approved", certificate="done"), ""),
        (request("10:00", "Denied"), ""),
        ({**request("10:00"), "spec": {"signerName": "example.io/other", "request": ""}}, ""),
    ],
)
def test_agent_that_waits_for_its_certificate_is_reported(asked: dict[str, Any], what: str) -> None:
    found = unhealthy(HEALTHY._replace(certificate_requests=(asked,)))
    assert [what in finding.message and "agent of east" in finding.message for finding in found] == [True] * bool(what)


def test_missing_rights_of_the_account_of_the_controllers_are_a_problem() -> None:
    rights = (Right("update", "", "secrets"), Right("create", "coordination.k8s.io", "leases", "fleet"))
    (finding,) = unhealthy(HEALTHY._replace(denials=(Denial("fleet/trimtab", rights), Denial("fleet/push", ()))))
    assert finding.level == "problem"
    assert finding.message == (
        "the account fleet/trimtab of the controllers may not update secrets, create leases.coordination.k8s.io in fleet"
    )


def test_webhook_that_does_not_answer_is_a_problem() -> None:
    webhook = WebhookFacts("trimtab-webhook", True, NOW + timedelta(days=20), 'failed calling webhook "x": refused')
    (finding,) = unhealthy(HEALTHY._replace(webhooks=(webhook,)))
    assert (finding.level, finding.check) == ("problem", "webhook")
    assert (
        "kubectl delete validatingwebhookconfiguration,mutatingwebhookconfiguration trimtab-webhook" in finding.remedy
    )


@pytest.mark.parametrize(
    ("agent", "remedy"),
    [
        ("0.6.9", ""),
        ("0.4.0", ""),
        ("0.3.9", "upgrade the agent; it may be 2 minor versions older at most"),
        ("0.7.0", "upgrade the controllers; an agent must never be newer"),
        ("1.0.0", "upgrade the controllers; an agent must never be newer"),
        ("", ""),
    ],
)
def test_version_of_an_agent_is_compared_with_that_of_the_controllers(agent: str, remedy: str) -> None:
    held = lease()
    held["metadata"]["annotations"] = {"trimtab.dev/version": "0.6.1"}
    found = unhealthy(HEALTHY._replace(leases=(held,), agent_versions={"edge": agent}))
    assert [finding.remedy for finding in found] == ([remedy] if remedy else [])
    assert all(finding.message == f"the agent of edge has version {agent}, the controllers 0.6.1" for finding in found)


def test_versions_of_another_major_number_are_far_apart() -> None:
    assert minor_versions_between("0.9.0", "1.0.0") == 3
    assert minor_versions_between("x", "1.0.0") is None
