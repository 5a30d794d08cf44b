import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "rig"))

from suites.kubernetes import KubernetesSuite


@pytest.mark.parametrize(
    ("file", "area"),
    [
        ("k8s.io/kubernetes/test/e2e/apimachinery/watch.go", "apimachinery/watch"),
        ("k8s.io/kubernetes/test/e2e/common/node/pods.go", "common/node/pods"),
        ("k8s.io/kubernetes/test/e2e/node/pods.go", "node/pods"),
        ("k8s.io/kubernetes/test/e2e/network/endpointslice.go", "network/endpointslice"),
        ("k8s.io/kubernetes/test/e2e/common/node/security_context.go", ""),
        ("k8s.io/kubernetes/test/e2e/storage/volumes.go", ""),
    ],
)
def test_an_area_is_a_file_of_the_suite(file: str, area: str) -> None:
    suite = KubernetesSuite()
    assert suite.area_of(file) == area
    assert not area or f"/{area}.go" in suite.focus_of(area)[0]
