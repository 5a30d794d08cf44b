"""Names, codes and texts of the peers' webhooks."""

from trimtab.api.admission.denials import denial, webhook_name, with_webhook_name
from trimtab.errors import BadRequest, Cause, Forbidden

CLUSTER_GROUP = "cluster.open-cluster-management.io"


def test_ocm_denies_with_code_400_and_without_field_names() -> None:
    refusal = denial(CLUSTER_GROUP, [Cause("FieldValueInvalid", "url is invalid", "spec.x"), Cause("", "also b")])
    assert isinstance(refusal, BadRequest)
    assert refusal.message == "url is invalid\nalso b"


def test_karmada_denies_with_code_403_and_names_the_field() -> None:
    refusal = denial("policy.karmada.io", [Cause("FieldValueInvalid", "is wrong", "spec.x")])
    assert isinstance(refusal, Forbidden)
    assert refusal.message == "spec.x: is wrong"


def test_the_message_names_the_webhook_and_keeps_the_code() -> None:
    name = "managedclustervalidators.admission.cluster.open-cluster-management.io"
    assert webhook_name("managedcluster", CLUSTER_GROUP) == name
    assert webhook_name("propagationpolicy", "policy.karmada.io") == "propagationpolicy.karmada.io"
    refusal = with_webhook_name(BadRequest("no"), "managedcluster", CLUSTER_GROUP)
    assert isinstance(refusal, BadRequest)
    assert refusal.message == f'admission webhook "{name}" denied the request: no'
    assert "details" not in refusal.status()
