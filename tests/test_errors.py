"""Errors of the API as Kubernetes `Status` objects."""

from trimtab.errors import Cause, Forbidden, Invalid, TooManyRequests, Unclassified


def test_status_has_code_reason_and_details() -> None:
    causes = [Cause("FieldValueRequired", "Required value", "spec.name"), Cause("Other", "no field")]
    status = Invalid("it is invalid", group="apps", kind="Deployment", name="web", causes=causes).status()
    assert (status["kind"], status["status"], status["code"], status["reason"]) == ("Status", "Failure", 422, "Invalid")
    assert status["details"] == {
        "name": "web",
        "group": "apps",
        "kind": "Deployment",
        "causes": [
            {"reason": "FieldValueRequired", "message": "Required value", "field": "spec.name"},
            {"reason": "Other", "message": "no field"},
        ],
    }


def test_empty_details_are_omitted_unless_requested() -> None:
    assert "details" not in Forbidden("no").status()
    assert Forbidden("no", details=True).status()["details"] == {}


def test_retry_after_is_in_the_details() -> None:
    assert TooManyRequests("later", retry_after=0).status()["details"] == {"retryAfterSeconds": 0}


def test_error_without_a_reason_has_no_reason_field() -> None:
    assert "reason" not in Unclassified("no").status()
