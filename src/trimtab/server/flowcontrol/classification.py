"""Which FlowSchema a request matches, and thereby its priority level and its flow."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from trimtab.api.kinds.native.flow_control import (
    FlowSchema,
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
_MOST_KEPT_USERS, _LONGEST_KEPT_NAME, _MOST_KEPT_GROUPS = 512, 256, 32


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


class _Rule(NamedTuple):
    """A rule of a schema, prepared so that most requests are compared with sets only."""

    users: frozenset[str]
    groups: frozenset[str]
    everybody: bool
    accounts: tuple[tuple[str, str], ...]
    """Namespaces and names of service accounts; `*` stands for all."""
    resources: tuple[ResourcePolicyRule, ...]
    paths: tuple[NonResourcePolicyRule, ...]
    everything: bool
    """Whether the rule covers every action."""

    def has_subject(self, user: User) -> bool:
        if self.everybody or user.name in self.users or not self.groups.isdisjoint(user.groups):
            return True
        if not self.accounts or not user.name.startswith(_SERVICE_ACCOUNT):
            return False
        namespace, _, name = user.name.removeprefix(_SERVICE_ACCOUNT).partition(":")
        return any(one in ("*", namespace) and other in ("*", name) for one, other in self.accounts)

    def has_target(self, action: Action) -> bool:
        if self.everything:
            return True
        if action.path:
            return any(_path_rule_matches(rule, action) for rule in self.paths)
        return any(_resource_rule_matches(rule, action) for rule in self.resources)


class _Schema(NamedTuple):
    name: str
    uid: str
    level: str
    method: str
    rules: tuple[_Rule, ...]


class Configuration:
    """The FlowSchemas in the order in which they are tried, and the priority levels they refer to."""

    def __init__(self, schemas: Iterable[Raw], levels: Iterable[Raw]) -> None:
        self.levels = {limits.name: limits for limits in map(level_limits, levels)}
        decoded = [msgspec.convert(raw, FlowSchema, strict=False) for raw in schemas]
        decoded.sort(key=lambda schema: (schema.spec.matching_precedence, schema.name))
        self._schemas = [schema for schema in map(_schema_of, decoded) if schema.level in self.levels]
        self._rules_by_user: dict[User, list[tuple[_Schema, _Rule]]] = {}
        """The rules that name a user, for users of recent requests; limited in number and size."""

    def classify(self, user: User, action: Action) -> Flow | None:
        """The flow of a request; None when no schema with an existing level matches."""
        rules = self._rules_by_user.get(user)
        if rules is None:
            rules = self._rules_for(user)
        for schema, rule in rules:
            if rule.has_target(action):
                return Flow(schema.name, schema.uid, schema.level, _distinguisher(schema.method, user, action))
        return None

    def _rules_for(self, user: User) -> list[tuple[_Schema, _Rule]]:
        rules = [(schema, rule) for schema in self._schemas for rule in schema.rules if rule.has_subject(user)]
        if len(user.name) < _LONGEST_KEPT_NAME and len(user.groups) < _MOST_KEPT_GROUPS and not user.extra:
            if len(self._rules_by_user) >= _MOST_KEPT_USERS:
                del self._rules_by_user[next(iter(self._rules_by_user))]
            self._rules_by_user[user] = rules
        return rules


def _schema_of(schema: FlowSchema) -> _Schema:
    method = schema.spec.distinguisher_method
    return _Schema(
        schema.name,
        schema.metadata.uid,
        schema.spec.priority_level_configuration.name,
        method.type if method is not None else "",
        tuple(map(_rule_of, schema.spec.rules)),
    )


def _rule_of(rules: PolicyRulesWithSubjects) -> _Rule:
    users = frozenset(subject.user.name for subject in rules.subjects if subject.user is not None)
    groups = frozenset(subject.group.name for subject in rules.subjects if subject.group is not None)
    accounts = [subject.service_account for subject in rules.subjects if subject.service_account is not None]
    return _Rule(
        users,
        groups,
        "*" in users or "*" in groups,
        tuple((account.namespace, account.name) for account in accounts),
        rules.resource_rules,
        rules.non_resource_rules,
        _covers_everything(rules),
    )


def _covers_everything(rules: PolicyRulesWithSubjects) -> bool:
    all_resources = any(
        rule.cluster_scope
        and all("*" in part for part in (rule.verbs, rule.api_groups, rule.resources, rule.namespaces or ()))
        for rule in rules.resource_rules
    )
    all_paths = any("*" in rule.verbs and "*" in rule.non_resource_urls for rule in rules.non_resource_rules)
    return all_resources and all_paths


def level_limits(raw: Raw) -> LevelLimits:
    level = msgspec.convert(raw, PriorityLevelConfiguration, strict=False)
    name, uid, spec = level.name, level.metadata.uid, level.spec
    if spec.limited is None:
        exempt_shares = spec.exempt.nominal_concurrency_shares if spec.exempt is not None else 0
        return LevelLimits(name, uid, exempt=True, shares=exempt_shares or 0, queues=False)
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
