"""The lines that describe a rehearsal."""

from trimtab.cli.support.rehearsal_report import as_document, changed_names, report_lines
from trimtab.rehearsal.read_only_member import MemberWrite
from trimtab.rehearsal.rehearsal import PlacementChange, Rehearsal

WRITES = (
    MemberWrite("m1", "update", "Deployment", "shop", "web", ("a", "b", "c", "d")),
    MemberWrite("m2", "delete", "Deployment", "shop", "web"),
)
FOUND = Rehearsal(
    member_writes=WRITES,
    placements=(PlacementChange("shop/web-deployment", {"m1": 1, "m2": 1}, {"m1": 2}),),
    host_changes=("Work karmada-es-m2/web: deleted",),
    not_read=("m3",),
    left_out=(),
    is_finished=False,
)


def test_deletions_come_first_and_long_lists_of_fields_are_shortened() -> None:
    text = "\n".join(report_lines(FOUND))
    assert text.index("delete") < text.index("update")
    assert "a, b, c and 1 more" in text
    assert "shop/web-deployment   m1:1 m2:1   m1:2" in text
    assert "2 writes in members (1 deletion), 1 changed placement, 1 changed object on the host" in text
    assert "not known for m3" in text
    assert "there may be more" in text
    assert "Work karmada-es-m2/web" not in text
    assert "Work karmada-es-m2/web" in "\n".join(report_lines(FOUND, wide=True))


def test_objects_that_change_in_several_clusters_are_named_once() -> None:
    assert changed_names(FOUND) == ["Deployment/shop/web"]


def test_document_names_every_write() -> None:
    document = as_document(FOUND)
    assert document["memberWrites"][1] == {
        "cluster": "m2",
        "verb": "delete",
        "kind": "Deployment",
        "namespace": "shop",
        "name": "web",
        "fields": [],
    }
    assert document["placements"] == [
        {"binding": "shop/web-deployment", "before": {"m1": 1, "m2": 1}, "after": {"m1": 2}}
    ]
