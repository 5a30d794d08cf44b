from trimtab.controllers.contract import controllers
from trimtab.controllers.start_order import START_ORDER, in_start_order
from trimtab.runtime.declarations import load_declarations


def test_every_listed_controller_exists_and_every_controller_is_listed_once() -> None:
    load_declarations()
    assert sorted(START_ORDER) == controllers.names()


def test_controllers_start_in_the_listed_order_and_others_come_last() -> None:
    load_declarations()
    new = controllers["detect"]._replace(name="a-new-one")
    names = [one.name for one in in_start_order([new, *controllers.values()])]
    assert names == [*START_ORDER, "a-new-one"]
