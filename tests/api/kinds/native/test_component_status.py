from api.kinds.kind_helpers import decode
from trimtab.api.kind import kind_of
from trimtab.api.kinds.native.component_status import ComponentStatus


def test_component_statuses_can_only_be_read() -> None:
    assert tuple(kind_of(ComponentStatus).verbs) == ("get", "list")
    assert kind_of(ComponentStatus).short == ("cs",)


def test_conditions_are_kept() -> None:
    conditions = [{"type": "Healthy", "status": "False", "error": "no answer"}]
    status = decode(ComponentStatus, {"metadata": {"name": "scheduler"}, "conditions": conditions})
    assert [(one.type, one.status, one.error) for one in status.conditions] == [("Healthy", "False", "no answer")]
