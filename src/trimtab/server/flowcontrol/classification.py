"""Which FlowSchema a request matches, and thereby its priority level and its flow."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from trimtab.api.kinds.native.flow_control import (
    FlowSchema,
    FlowSubject,
    NonResourcePolicyRule,
    PolicyRulesWithSubjects,
    PriorityLevelConfiguration,
    ResourcePolicyRule,
)
from trimtab.api.value import Raw
from trimtab.server.auth.authorize import Action
from trimtab.server.auth.user import User

DEFAULT_SHARES = 30
_SERVICE_ACCOUNT = "system:serviceaccount:"


class LevelLimits(NamedTuple):
    """What the configuration says about one priority level."""

    name: str
    uid: str = ""
    exempt: bool = False
    shares: int = DEFAULT_SHARES
    lendable_percent: int = 0
    borrowing_percent: int | None = None
    queues: bool = True
    """Whether requests wait for a seat; else they are rejected when there is none."""
    flow_queue_length: int = 400
    """How many requests of one flow may wait."""
    total_queue_length: int = 3200
    """How many requests of the level may wait."""


class Flow(NamedTuple):
    """The classification of a request: requests of the same flow wait in the same queue."""

    schema: str
    schema_uid: str
    level: str
    distinguisher: str
    """The user or the namespace of the request; empty when the schema does not distinguish."""


class _Schema(NamedTuple):
    name: str
    uid: str
    level: str
    method: str
    rules: tuple[PolicyRulesWithSubjects, ...]


class Configuration:
    """The FlowSchemas in the order in which they are tried, and the priority levels they refer to."""

    def __init__(self, schemas: Iterable[Raw], levels: Iterable[Raw]) -> None:
        self.levels = {limits.name: limits for limits in map(level_limits, levels)}
        decoded = [msgspec.convert(raw, FlowSchema, strict=False) for raw in schemas]
        decoded.sort(key=lambda schema: (schema.spec.matching_precedence, schema.name))
        self._schemas = [_schema_of(schema) for schema in decoded]

    def classify(self, user: User, action: Action) -> Flow | None:
        """The flow of a request; None when no schema with an existing level matches."""
        for schema in self._schemas:
            if schema.level in self.levels and any(_rules_match(rules, user, action) for rules in schema.rules):
                return Flow(schema.name, schema.uid, schema.level, _distinguisher(schema.method, user, action))
        return None


def _schema_of(schema: FlowSchema) -> _Schema:
    method = schema.spec.distinguisher_method
    return _Schema(
        schema.name,
        schema.metadata.uid,
        schema.spec.priority_level_configuration.name,
        method.type if method is not None else "",
        schema.spec.rules,
    )


def level_limits(raw: Raw) -> LevelLimits:
    level = msgspec.convert(raw, PriorityLevelConfiguration, strict=False)
    name, uid, spec = level.name, level.metadata.uid, level.spec
    if spec.limited is None:
        exempt = spec.exempt
        shares = (exempt.nominal_concurrency_shares or 0) if exempt is not None else 0
        return LevelLimits(name, uid, exempt=True, shares=shares, queues=False)
    limited, queuing = spec.limited, spec.limited.limit_response.queuing
    shares = limited.nominal_concurrency_shares
    limits = LevelLimits(
        name,
        uid,
        shares=DEFAULT_SHARES if shares is None else shares,
        lendable_percent=limited.lendable_percent or 0,
        borrowing_percent=limited.borrowing_limit_percent,
    )
    if queuing is None:
        return limits._replace(queues=False, flow_queue_length=0, total_queue_length=0)
    return limits._replace(
        flow_queue_length=queuing.hand_size * queuing.queue_length_limit,
        total_queue_length=queuing.queues * queuing.queue_length_limit,
    )


def _distinguisher(method: str, user: User, action: Action) -> str:
    if method == "ByUser":
        return user.name
    return action.namespace if method == "ByNamespace" else ""


def _rules_match(rules: PolicyRulesWithSubjects, user: User, action: Action) -> bool:
    if not any(_subject_matches(subject, user) for subject in rules.subjects):
        return False
    if action.path:
        return any(_path_rule_matches(rule, action) for rule in rules.non_resource_rules)
    return any(_resource_rule_matches(rule, action) for rule in rules.resource_rules)


def _subject_matches(subject: FlowSubject, user: User) -> bool:
    if subject.user is not None:
        return subject.user.name in ("*", user.name)
    if subject.group is not None:
        return subject.group.name == "*" or subject.group.name in user.groups
    account = subject.service_account
    if account is None or not user.name.startswith(_SERVICE_ACCOUNT):
        return False
    namespace, _, name = user.name.removeprefix(_SERVICE_ACCOUNT).partition(":")
    return account.namespace in ("*", namespace) and account.name in ("*", name)


def _covers(allowed: Sequence[str], wanted: str) -> bool:
    return "*" in allowed or wanted in allowed


def _resource_rule_matches(rule: ResourcePolicyRule, action: Action) -> bool:
    if not (_covers(rule.verbs, action.verb) and _covers(rule.api_groups, action.group)):
        return False
    if not _covers(rule.resources, action.full_resource):
        return False
    return _covers(rule.namespaces or (), action.namespace) if action.namespace else rule.cluster_scope


def _path_rule_matches(rule: NonResourcePolicyRule, action: Action) -> bool:
    return _covers(rule.verbs, action.verb) and any(
        pattern in ("*", action.path) or (pattern.endswith("/*") and action.path.startswith(pattern[:-1]))
        for pattern in rule.non_resource_urls
    )
