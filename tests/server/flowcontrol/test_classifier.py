"""Members name the flow of a request by their own FlowSchemas."""

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


def test_response_names_the_flow_schema_of_the_server_that_shares_its_flow_control() -> None:
    async def run() -> None:
        shared = FlowController()
        settings = ApiServerSettings(clock=LoopClock(), flow_control_objects=True, shared_flow_control=shared)
        server = ApiServer(Store(), settings)
        await server.start()
        client = AsgiClient(server)
        try:
            other = (await client("GET", "/version", user=NOXU)).headers["x-kubernetes-pf-flowschema-uid"]
            body = {"metadata": {"name": "noxu"}, "spec": SPEC}
            created = (await client("POST", f"{GROUP}/flowschemas", body)).json()
            level = (await client("GET", f"{GROUP}/prioritylevelconfigurations/global-default")).json()
            headers = (await client("GET", "/version", user=NOXU)).headers
            assert headers["x-kubernetes-pf-flowschema-uid"] == created["metadata"]["uid"] != other
            assert headers["x-kubernetes-pf-prioritylevel-uid"] == level["metadata"]["uid"]
        finally:
            await server.stop()

    run_virtually(run())
