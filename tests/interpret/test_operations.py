from trimtab.interpret.operations import Fault, Operation, Uninterpretable


def test_error_names_operation_source_and_message() -> None:
    error = Uninterpretable(Fault("BadResult", "no number"), Operation.REPLICA, "ResourceInterpreterCustomization foo")
    assert str(error) == "InterpretReplica by ResourceInterpreterCustomization foo: no number"
