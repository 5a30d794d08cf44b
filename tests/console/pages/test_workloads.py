"""The page of workloads: what a row says while a workload moves."""

from console.fake_console import NOW, fill, new_console
from trimtab.console.page import PageContext
from trimtab.console.pages.workloads import progress_text, workloads
from trimtab.console.workload_facts import PLACED, SHORT, Cell

KEY = "shop/Deployment/web"


def test_rows_say_what_a_move_waits_for() -> None:
    console = new_console()
    fill(console)
    context = PageContext(console.model, NOW)
    found = console.model.workloads[KEY]
    moving = found.but(cells={"web-c0": Cell(held=1), "web-c1": Cell(starting=2)})
    assert progress_text(moving, context) == "rebalance: 1 stays until 2 new are ready"
    short = found.but(state=SHORT, cells={"web-c0": Cell(ready=1), "web-c2": Cell(lost=3)})
    blind = context._replace(visibility=context.visibility._replace(moves=frozenset()))
    assert progress_text(short, context) == "rebalance: 3 lost in web-c2"
    assert progress_text(short, blind) == "3 lost in web-c2", "causes are those of moves that the user may see"
    assert progress_text(found.but(state=PLACED), context) == ""


def test_rows_have_their_namespace_unless_it_is_above_them() -> None:
    console = new_console()
    fill(console)

    def flags(**query: str) -> set[bool]:
        rows = workloads(PageContext(console.model, NOW, query=query))["rows"]
        return {row["with_namespace"] for row in rows if "workload" in row}

    assert flags() == {False}
    assert flags(sort="state") == {True}
    assert flags(by="policy") == {True}
