from api.kinds.kind_helpers import decode
from trimtab.api.kinds.native.quota import ResourceQuota


def test_quota_keeps_limits_scopes_and_usage() -> None:
    requirement = {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}
    quota = decode(
        ResourceQuota,
        {
            "metadata": {"name": "q"},
            "spec": {
                "hard": {"requests.cpu": "500m"},
                "scopes": ["BestEffort"],
                "scopeSelector": {"matchExpressions": [requirement]},
            },
            "status": {"used": {"requests.cpu": "100m"}},
        },
    )
    assert (quota.spec.hard, quota.spec.scopes) == ({"requests.cpu": "500m"}, ("BestEffort",))
    assert quota.spec.scope_selector is not None
    assert quota.spec.scope_selector.match_expressions[0].values == ("high",)
    assert quota.status.used == {"requests.cpu": "100m"}
