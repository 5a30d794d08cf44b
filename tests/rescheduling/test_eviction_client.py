from trimtab.errors import Cause, TooManyRequests
from trimtab.rescheduling.eviction_client import eviction_body, refusal_message

POD = {"metadata": {"name": "p", "namespace": "n", "uid": "u1"}}


def test_an_eviction_names_the_uid_so_that_no_other_pod_is_evicted() -> None:
    body = eviction_body(POD)
    assert body["deleteOptions"] == {"preconditions": {"uid": "u1"}}
    assert body["metadata"] == {"name": "p", "namespace": "n", "annotations": {}}


def test_options_and_annotations_are_passed_on() -> None:
    body = eviction_body(POD, by="drain", annotations={"reason": "x"}, grace=0, dry_run=True)
    assert body["metadata"]["annotations"] == {"trimtab.dev/requested-by": "drain", "reason": "x"}
    assert body["deleteOptions"]["gracePeriodSeconds"] == 0
    assert body["deleteOptions"]["dryRun"] == ["All"]


def test_the_refusal_message_prefers_the_causes_of_the_budgets() -> None:
    causes = (Cause("DisruptionBudget", "budget a is exhausted"), Cause("DisruptionBudget", "budget b is closed"))
    assert refusal_message(TooManyRequests("refused", causes=causes)) == "budget a is exhausted; budget b is closed"
    assert refusal_message(TooManyRequests("refused")) == "refused"
