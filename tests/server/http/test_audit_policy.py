"""The first rule of an audit policy that matches a request decides, as in kube-apiserver."""

from pathlib import Path

import pytest

from trimtab.errors import InputError
from trimtab.server.auth.user import User
from trimtab.server.http.audit_policy import AuditedRequest, AuditPolicy, read_policy
from trimtab.server.request.routes import parse_path

POLICY = """
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: None
    users: [system:kube-scheduler]
  - level: None
    nonResourceURLs: [/healthz*, /version]
  - level: Metadata
    resources: [{group: "", resources: [secrets, configmaps, "*/token"]}]
  - level: RequestResponse
    verbs: [create, delete]
    userGroups: [system:masters]
    omitManagedFields: true
    resources: [{group: apps, resourceNames: [web]}]
  - level: Request
    namespaces: [shop]
  - level: Metadata
    omitStages: [ResponseStarted]
"""


@pytest.fixture
def policy(tmp_path: Path) -> AuditPolicy:
    (tmp_path / "policy.yaml").write_text(POLICY)
    return read_policy(tmp_path / "policy.yaml")


@pytest.mark.parametrize(
    ("user", "verb", "path", "level"),
    [
        (User("system:kube-scheduler"), "get", "/api/v1/namespaces/shop/pods/a", "None"),
        (User("ada"), "get", "/healthz/etcd", "None"),
        (User("ada"), "get", "/metrics", "Metadata"),
        (User("ada"), "get", "/api/v1/namespaces/shop/secrets/a", "Metadata"),
        (User("ada"), "create", "/api/v1/namespaces/shop/serviceaccounts/a/token", "Metadata"),
        (User("ada"), "get", "/api/v1/namespaces/shop/secrets/a/status", "Request"),
        (User("ada", ("system:masters",)), "delete", "/apis/apps/v1/namespaces/x/deployments/web", "RequestResponse"),
        (User("ada", ("system:masters",)), "delete", "/apis/apps/v1/namespaces/x/deployments/db", "Metadata"),
        (User("ada"), "delete", "/apis/apps/v1/namespaces/x/deployments/web", "Metadata"),
        (User("ada"), "delete", "/apis/apps/v1/namespaces/shop/deployments/web", "Request"),
    ],
)
def test_first_matching_rule_decides(policy: AuditPolicy, user: User, verb: str, path: str, level: str) -> None:
    assert policy.decide(AuditedRequest(user, verb, path, parse_path(path))).level == level


def test_stages_are_omitted_by_the_policy_and_by_the_rule(policy: AuditPolicy) -> None:
    decision = policy.decide(AuditedRequest(User("ada"), "get", "/metrics", None))
    assert [decision.records(stage) for stage in ("RequestReceived", "ResponseStarted", "ResponseComplete")] == [
        False,
        False,
        True,
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "is no audit policy"),
        ("kind: Policy\napiVersion: audit.k8s.io/v1\nrules: []", "has no rules"),
        ("kind: Policy\napiVersion: audit.k8s.io/v1beta1\nrules: [{level: None}]", "must have apiVersion"),
        ("kind: Policy\napiVersion: audit.k8s.io/v1\nrules: [{level: Full}]", "level 'Full' is not one of"),
        ("kind: Policy\napiVersion: audit.k8s.io/v1\nrules: [{level: None, verb: [get]}]", "unknown field `verb`"),
        (
            "kind: Policy\napiVersion: audit.k8s.io/v1\nrules: [{level: None, nonResourceURLs: [/a], namespaces: [b]}]",
            "not both",
        ),
        ("kind: Policy\napiVersion: audit.k8s.io/v1\nrules: [{level: None, omitStages: [End]}]", "stage 'End'"),
    ],
)
def test_wrong_policy_is_refused_with_its_mistake(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "policy.yaml").write_text(text)
    with pytest.raises(InputError, match=message):
        read_policy(tmp_path / "policy.yaml")
