"""Members name the flow of a request by their own FlowSchemas."""

from collections.abc import Awaitable, Callable

from server.asgi import AsgiClient
from trimtab.clock import LoopClock, run_virtually
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.auth.user import AUTHENTICATED, User
from trimtab.server.flowcontrol.controller import FlowController
from trimtab.store.store import Store

GROUP = "/apis/flowcontrol.apiserver.k8s.io/v1"
NOXU = User("noxu", (AUTHENTICATED,))
SPEC = {
    "matchingPrecedence": 1000,
    "priorityLevelConfiguration": {"name": "global-default"},
    "rules": [
        {
            "subjects": [{"kind": "User", "user": {"name": "noxu"}}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        }
    ],
}


LEVEL = {
    "type": "Limited",
    "limited": {"nominalConcurrencyShares": 0, "borrowingLimitPercent": 0, "limitResponse": {"type": "Reject"}},
}


def with_shared_flow_control(scenario: Callable[[AsgiClient], Awaitable[None]]) -> None:
    """A server like that of a member: its flow control comes before that of the whole process."""

    async def run() -> None:
        settings = ApiServerSettings(clock=LoopClock(), flow_control_objects=True, shared_flow_control=FlowController())
        server = ApiServer(Store(), settings)
        await server.start()
        try:
            await scenario(AsgiClient(server))
        finally:
            await server.stop()

    run_virtually(run())


def test_response_names_the_flow_schema_of_the_server_that_shares_its_flow_control() -> None:
    async def scenario(client: AsgiClient) -> None:
        other = (await client("GET", "/version", user=NOXU)).headers["x-kubernetes-pf-flowschema-uid"]
        created = (await client("POST", f"{GROUP}/flowschemas", {"metadata": {"name": "noxu"}, "spec": SPEC})).json()
        level = (await client("GET", f"{GROUP}/prioritylevelconfigurations/global-default")).json()
        headers = (await client("GET", "/version", user=NOXU)).headers
        assert headers["x-kubernetes-pf-flowschema-uid"] == created["metadata"]["uid"] != other
        assert headers["x-kubernetes-pf-prioritylevel-uid"] == level["metadata"]["uid"]

    with_shared_flow_control(scenario)


def test_levels_of_the_server_itself_limit_its_requests() -> None:
    async def scenario(client: AsgiClient) -> None:
        level = {"metadata": {"name": "none"}, "spec": LEVEL}
        assert (await client("POST", f"{GROUP}/prioritylevelconfigurations", level)).status == 201
        spec = {**SPEC, "priorityLevelConfiguration": {"name": "none"}}
        assert (
            await client("POST", f"{GROUP}/flowschemas", {"metadata": {"name": "noxu"}, "spec": spec})
        ).status == 201
        assert (await client("GET", "/version", user=NOXU)).status == 429
        assert (await client("GET", "/version", user=User("other", (AUTHENTICATED,)))).status == 200
        metrics = (await client("GET", "/metrics")).body.decode()
        assert 'apiserver_flowcontrol_nominal_limit_seats{priority_level="none"} 0' in metrics

    with_shared_flow_control(scenario)
