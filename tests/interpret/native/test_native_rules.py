import pytest

from interpret.native.native_helpers import TRIMTAB, deployment, make_object
from trimtab.interpret.operations import InterpreterError, Operation


def test_operation_without_a_rule_raises() -> None:
    with pytest.raises(InterpreterError, match="no rule for InterpretReplica of v1 ConfigMap"):
        TRIMTAB.replicas(make_object("ConfigMap"))


@pytest.mark.parametrize("operation", list(Operation))
def test_only_the_status_of_an_unknown_kind_is_interpreted(operation: Operation) -> None:
    assert TRIMTAB.interprets(("ex.io/v1", "Foo"), operation) is (operation is Operation.STATUS)


def test_invalid_quantity_is_an_interpreter_error() -> None:
    with pytest.raises(InterpreterError, match="'lots' is not a quantity"):
        TRIMTAB.replicas(deployment(containers=[{"resources": {"requests": {"cpu": "lots"}}}]))
