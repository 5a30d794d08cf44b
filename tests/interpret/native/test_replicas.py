from typing import Any

import pytest

from interpret.native.native_helpers import TRIMTAB, deployment, make_object


def test_revising_replicas_does_not_modify_the_object() -> None:
    obj = deployment(containers=[])
    TRIMTAB.revise(obj, 5)
    assert obj["spec"]["replicas"] == 1


@pytest.mark.parametrize(
    ("spec", "replicas"),
    [({"parallelism": 3}, 3), ({"parallelism": 3, "completions": 2}, 2), ({"parallelism": 3, "completions": 5}, 3)],
)
def test_job_has_as_many_replicas_as_run_at_once(spec: dict[str, Any], replicas: int) -> None:
    assert TRIMTAB.replicas(make_object("Job", "batch/v1", spec=spec)) == (replicas, None)


def test_replicas_are_revised_only_where_the_template_sets_them() -> None:
    assert TRIMTAB.revise(make_object("Job", "batch/v1", spec={"parallelism": 1}), 4)["spec"] == {"parallelism": 4}
    assert TRIMTAB.revise(make_object("Job", "batch/v1", spec={}), 4)["spec"] == {}
