"""WorkloadRebalancers."""

from api.kinds.kind_helpers import decode, schema_error_fields, with_schema_defaults
from trimtab.api.kinds.rebalancer import WorkloadRebalancer

WORKLOADS = [{"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web"}]


def test_ten_workloads_move_in_parallel_by_default() -> None:
    assert decode(WorkloadRebalancer, {"spec": {"workloads": WORKLOADS}}).spec.max_parallel == 10


def test_move_options_have_defaults() -> None:
    spec = with_schema_defaults(WorkloadRebalancer, {"spec": {"workloads": WORKLOADS, "move": {}}})["spec"]
    assert spec["move"] == {"timeoutSeconds": 600, "maxSurge": "100%"}


def test_strategy_and_parallelism_are_limited() -> None:
    spec = {"workloads": WORKLOADS, "strategy": "Random", "maxParallel": 0}
    assert sorted(schema_error_fields(WorkloadRebalancer, {"spec": spec})) == ["spec.maxParallel", "spec.strategy"]
