"""Acknowledged writes must stay; writes without an answer may show or not."""

from soak.ledger import Ledger


def test_lost_write_is_found() -> None:
    ledger = Ledger()
    ledger.acknowledge("web", 3)
    assert list(ledger.violations({"web": 3})) == []
    assert list(ledger.violations({})) == ["web is absent, but the server acknowledged 3"]


def test_older_value_of_an_acknowledged_write_is_found() -> None:
    ledger = Ledger()
    ledger.acknowledge("web", 3)
    ledger.acknowledge("web", 4)
    assert list(ledger.violations({"web": 3})) == ["web is 3, but the server acknowledged 4"]


def test_write_without_an_answer_may_be_done_or_not() -> None:
    ledger = Ledger()
    ledger.acknowledge("web", 3)
    ledger.attempt("web", 4)
    assert [list(ledger.violations({"web": value})) for value in (3, 4)] == [[], []]
    assert list(ledger.violations({"web": 5})) == ["web is 5, but the server acknowledged 3 or 4"]


def test_object_of_a_create_without_an_answer_may_be_absent() -> None:
    ledger = Ledger()
    ledger.attempt("web", 3)
    assert list(ledger.violations({})) == []


def test_deleted_object_that_returns_is_found() -> None:
    ledger = Ledger()
    ledger.acknowledge("web", 3)
    ledger.acknowledge("web", "absent")
    assert list(ledger.violations({"web": 3})) == ["web is 3, but the server acknowledged absent"]
