import pytest

import trimtab.api.kinds
from trimtab.api.kind import find_kind
from trimtab.registry import discover

discover(trimtab.api.kinds)


@pytest.mark.parametrize(
    ("api_version", "name", "plural", "namespaced"),
    [
        ("authorization.k8s.io/v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", False),
        ("authorization.k8s.io/v1", "SubjectAccessReview", "subjectaccessreviews", False),
        ("authorization.k8s.io/v1", "LocalSubjectAccessReview", "localsubjectaccessreviews", True),
        ("authorization.k8s.io/v1", "SelfSubjectRulesReview", "selfsubjectrulesreviews", False),
        ("authentication.k8s.io/v1", "SelfSubjectReview", "selfsubjectreviews", False),
        ("authentication.k8s.io/v1", "TokenReview", "tokenreviews", False),
        ("v1", "Binding", "bindings", True),
    ],
)
def test_reviews_and_bindings_can_only_be_created(api_version: str, name: str, plural: str, namespaced: bool) -> None:
    kind = find_kind(api_version, name)
    assert kind is not None
    assert (kind.plural, kind.namespaced, tuple(kind.verbs)) == (plural, namespaced, ("create",))
