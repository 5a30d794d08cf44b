"""Images that cannot be pulled, by convention."""

import pytest

from trimtab.simulate.containers.programs import pull_error


@pytest.mark.parametrize(
    ("reference", "fails"),
    [
        ("nginx:1.19.0", False),
        ("docker.io/library/nginx", False),
        ("fakery/nginx:1", False),
        ("fake/nginx:1.19.0", True),
        ("invalid.example:5000/nginx", True),
        ("registry.invalid/nginx", True),
        ("nginx:404", True),
        ("fake:1", False),
    ],
)
def test_images_of_broken_sources_cannot_be_pulled(reference: str, fails: bool) -> None:
    assert bool(pull_error(reference)) is fails
