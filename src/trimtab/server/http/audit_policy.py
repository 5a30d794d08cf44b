"""The audit policy: which requests are recorded, and how much of each (`audit.k8s.io/v1`, kind Policy).

The rules are those of kube-apiserver: the first rule that matches decides, and a request that no rule matches is not recorded.
"""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

import msgspec

from trimtab.api.yaml_documents import load_yaml
from trimtab.errors import InputError
from trimtab.server.auth.user import User
from trimtab.server.request.routes import RequestInfo

LEVELS = ("None", "Metadata", "Request", "RequestResponse")
STAGES = ("RequestReceived", "ResponseStarted", "ResponseComplete", "Panic")
API_VERSION = "audit.k8s.io/v1"
MAX_FILE_BYTES = 1024 * 1024


class GroupResources(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """Resources of one API group; `*`, `resource/subresource`, `*/subresource` and `resource/*` as in Kubernetes."""

    group: str = ""
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()


class AuditRule(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """One rule; an empty list matches everything."""

    level: str
    users: tuple[str, ...] = ()
    user_groups: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    resources: tuple[GroupResources, ...] = ()
    namespaces: tuple[str, ...] = ()
    non_resource_urls: tuple[str, ...] = msgspec.field(default=(), name="nonResourceURLs")
    omit_stages: tuple[str, ...] = ()
    omit_managed_fields: bool | None = None


class AuditPolicy(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """The rules in order."""

    api_version: str
    kind: str
    rules: tuple[AuditRule, ...]
    metadata: dict[str, object] = {}
    omit_stages: tuple[str, ...] = ()
    omit_managed_fields: bool = False

    def decide(self, request: "AuditedRequest") -> "AuditDecision":
        for rule in self.rules:
            if matches(rule, request):
                managed = rule.omit_managed_fields
                omits = self.omit_managed_fields if managed is None else managed
                return AuditDecision(rule.level, frozenset((*self.omit_stages, *rule.omit_stages)), omits)
        return NOT_RECORDED


class AuditedRequest(NamedTuple):
    """What rules look at."""

    user: User
    verb: str
    path: str
    target: RequestInfo | None


class AuditDecision(NamedTuple):
    """How a request is recorded."""

    level: str
    omitted_stages: frozenset[str] = frozenset()
    omits_managed_fields: bool = False

    def records(self, stage: str) -> bool:
        return self.level != "None" and stage not in self.omitted_stages


NOT_RECORDED = AuditDecision("None")


def read_policy(path: Path) -> AuditPolicy:
    """The policy in a YAML file; an InputError names what is wrong with it."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise InputError(f"the audit policy {path} cannot be read: {error.strerror}") from error
    if len(text) > MAX_FILE_BYTES:
        raise InputError(f"the audit policy {path} has more than {MAX_FILE_BYTES} bytes")
    try:
        policy = msgspec.convert(load_yaml(text), AuditPolicy)
    except ValueError as error:  # also what msgspec raises
        raise InputError(f"{path} is no audit policy: {error}") from error
    if (policy.api_version, policy.kind) != (API_VERSION, "Policy"):
        raise InputError(f"{path} is no audit policy: it must have apiVersion {API_VERSION} and kind Policy")
    if not policy.rules:
        raise InputError(f"the audit policy {path} has no rules")
    for number, rule in enumerate(policy.rules):
        _check_rule(rule, f"{path}: rules[{number}]")
    _check_stages(policy.omit_stages, str(path))
    return policy


def _check_rule(rule: AuditRule, where: str) -> None:
    if rule.level not in LEVELS:
        raise InputError(f"{where}: level {rule.level!r} is not one of {', '.join(LEVELS)}")
    if rule.non_resource_urls and (rule.resources or rule.namespaces):
        raise InputError(f"{where}: a rule is about resources or about nonResourceURLs, not both")
    _check_stages(rule.omit_stages, where)


def _check_stages(stages: Sequence[str], where: str) -> None:
    for stage in stages:
        if stage not in STAGES:
            raise InputError(f"{where}: stage {stage!r} is not one of {', '.join(STAGES)}")


def matches(rule: AuditRule, request: AuditedRequest) -> bool:
    if rule.users and request.user.name not in rule.users:
        return False
    if rule.user_groups and not set(rule.user_groups).intersection(request.user.groups):
        return False
    if rule.verbs and request.verb not in rule.verbs:
        return False
    target = request.target if request.target is not None and request.target.resource else None
    if target is None:
        if rule.resources or rule.namespaces:
            return False
        return not rule.non_resource_urls or any(fnmatchcase(request.path, url) for url in rule.non_resource_urls)
    if rule.non_resource_urls or (rule.namespaces and target.namespace not in rule.namespaces):
        return False
    return not rule.resources or any(_matches_resource(group, target) for group in rule.resources)


def _matches_resource(group: GroupResources, target: RequestInfo) -> bool:
    if group.group != target.group:
        return False
    if group.resource_names and target.name not in group.resource_names:
        return False
    if not group.resources:
        return True
    names = {"*", target.resource} if not target.subresource else {"*"}
    if target.subresource:
        names |= {f"{target.resource}/{target.subresource}", f"{target.resource}/*", f"*/{target.subresource}"}
    return bool(names.intersection(group.resources))
