from trimtab.interpret.operations import InterpreterError, InterpreterFailure, Operation


def test_error_names_operation_source_and_message() -> None:
    error = InterpreterError(
        InterpreterFailure("BadResult", "no number"), Operation.REPLICA, "ResourceInterpreterCustomization foo"
    )
    assert str(error) == "InterpretReplica by ResourceInterpreterCustomization foo: no number"
