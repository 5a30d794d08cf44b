"""References to a template in bindings and Works."""

from builders import deployment

from trimtab.controllers.propagation.template_references import controller_reference, object_reference
from trimtab.controllers.well_known import ref_of_raw


def test_controller_reference_blocks_deletion_of_its_owner() -> None:
    owner = controller_reference(ref_of_raw(deployment()))
    assert (owner.api_version, owner.kind, owner.name, owner.uid) == ("apps/v1", "Deployment", "web", "uid-web")
    assert (owner.controller, owner.block_owner_deletion) == (True, True)


def test_object_reference_has_the_version_of_the_template() -> None:
    assert object_reference(deployment(resourceVersion="8")).resource_version == "8"
    assert object_reference(deployment()).namespace == "demo"
