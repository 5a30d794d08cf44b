from trimtab.controllers.contract import controllers
from trimtab.controllers.start_order import START_ORDER, in_start_order
from trimtab.runtime.declarations import load_declarations


def test_every_listed_controller_exists_and_is_listed_once() -> None:
    load_declarations()
    assert set(START_ORDER) <= set(controllers.names())
    assert len(set(START_ORDER)) == len(START_ORDER)


def test_controllers_start_in_the_listed_order_and_others_come_last() -> None:
    load_declarations()
    new = controllers["detect"]._replace(name="a-new-one")
    listed = [controllers[name] for name in reversed(START_ORDER)]
    assert [one.name for one in in_start_order([new, *listed])] == [*START_ORDER, "a-new-one"]
