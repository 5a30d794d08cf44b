"""Names and ids by which the objects of one propagation know each other."""

import uuid

import pytest

from trimtab.controllers.well_known import permanent_id


@pytest.mark.parametrize("parts", [("one",), ("b1", "member-1"), ("größe", "Deployment", "web-deployment")])
def test_a_permanent_id_is_the_uuid_that_the_standard_gives_to_the_name(parts: tuple[str, ...]) -> None:
    assert permanent_id(*parts) == str(uuid.uuid5(uuid.UUID("6a1d7a39-5c7b-4f0e-9c53-0c2a3f0f8d11"), "/".join(parts)))
