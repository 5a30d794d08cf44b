"""Refusals of requirements that are not met."""

from trimtab.api.admission.requirements import LiveNamespace, RequiredAccess
from trimtab.errors import BadRequest, Forbidden


def test_missing_permission_is_refused_with_403_or_400() -> None:
    access = RequiredAccess("create", "g", "sets", "join", "a", "", 'user "{user}" may not', 'sets/join.g "a"')
    refusal = access.refusal("eve")
    assert isinstance(refusal, Forbidden)
    assert refusal.message == 'sets/join.g "a" is forbidden: user "eve" may not'
    refusal = access._replace(subject="").refusal("eve")
    assert isinstance(refusal, BadRequest)
    assert refusal.message == 'user "eve" may not'


def test_terminating_namespace_is_refused_with_403() -> None:
    refusal = LiveNamespace("a", "it is terminating", 'clusters.g "a"').refusal()
    assert isinstance(refusal, Forbidden)
    assert refusal.message == 'clusters.g "a" is forbidden: it is terminating'
