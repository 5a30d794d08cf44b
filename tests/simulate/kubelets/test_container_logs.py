import asyncio

from simulate.fixtures import DEPLOYMENTS, PODS, deployment, run_in_member
from trimtab.server.auth.user import User
from trimtab.server.request.messages import Request, StreamingResponse
from trimtab.simulate.kubelets.container_logs import format_container_log
from trimtab.simulate.member import SimulatedMember

CRASHED = {
    "startedAt": "2030-01-01T00:00:00Z",
    "finishedAt": "2030-01-01T00:05:00Z",
    "reason": "OOMKilled",
    "exitCode": 137,
}


def pod(**status: object) -> dict[str, object]:
    return {"status": {"containerStatuses": [{"name": "web", **status}]}}


def test_log_of_running_container_has_start_time_and_simulation_notice() -> None:
    log = format_container_log(
        pod(ready=True, state={"running": {"startedAt": "2030-01-01T00:00:00Z"}}), "web", previous=False
    )
    assert log.splitlines() == [
        "2030-01-01T00:00:00Z web: started",
        "web: ready; it is simulated, no process runs here",
    ]


def test_log_of_crashed_container_and_of_previous_run_end_with_the_exit_code() -> None:
    crashed = pod(ready=False, state={"waiting": {"reason": "CrashLoopBackOff"}}, lastState={"terminated": CRASHED})
    restarted = pod(ready=False, state={"running": {"startedAt": "later"}}, lastState={"terminated": CRASHED})
    end = "2030-01-01T00:05:00Z web: OOMKilled, exit code 137"
    assert format_container_log(crashed, "web", previous=False).splitlines()[-1] == end
    assert format_container_log(restarted, "web", previous=True).splitlines()[-1] == end
    assert format_container_log(restarted, "web", previous=False) == "later web: started\n"


def test_member_serves_logs_and_refuses_exec() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(DEPLOYMENTS, deployment(replicas=1))
        await asyncio.sleep(30)
        path = f"/api/v1/namespaces/default/pods/{member.pods[0].name}"
        whole = await member.client.fetch(f"{path}/log")
        last = await member.client.fetch(f"{path}/log?tailLines=1")
        assert whole.code == 200
        assert whole.body.count(b"\n") == 2
        assert whole.body.endswith(last.body)
        refused = await member.client.fetch(f"{path}/exec")
        assert refused.code == 400
        assert b"you must specify at least 1 command" in refused.body
        assert (await member.client.fetch(f"{path}/log?tailLines=few")).code == 400

    run_in_member(scenario)


async def start_following(member: SimulatedMember, script: str, **query: str) -> StreamingResponse:
    container = {"name": "main", "image": "busybox", "command": ["sh", "-c", script]}
    spec = {"containers": [container], "restartPolicy": "Never"}
    await member.client.create(PODS, {"metadata": {"name": "talker", "namespace": "default"}, "spec": spec})
    await asyncio.sleep(8)
    path = "/api/v1/namespaces/default/pods/talker/log"
    user = User("reader", ("system:masters",))
    response = await member.server.handler.handle(
        Request("GET", path, {"follow": "true", **query}, {}, certificate_user=user)
    )
    assert isinstance(response, StreamingResponse)
    return response


def test_a_followed_log_is_sent_until_the_last_line() -> None:
    async def scenario(member: SimulatedMember) -> None:
        response = await start_following(member, "echo first; sleep 60; echo second; sleep 60; echo last")
        chunks = [chunk async for chunk in response.chunks]
        assert chunks == [b"first\n", b"second\n", b"last\n"]

    run_in_member(scenario)


def test_a_followed_log_ends_at_the_limit_and_with_its_pod() -> None:
    async def scenario(member: SimulatedMember) -> None:
        response = await start_following(member, "echo first; sleep 20; echo second; sleep 9000", limitBytes="9")
        assert b"".join([chunk async for chunk in response.chunks]) == b"first\nsec"
        path, user = "/api/v1/namespaces/default/pods/talker/log", User("reader", ("system:masters",))
        again = await member.server.handler.handle(Request("GET", path, {"follow": "1"}, {}, certificate_user=user))
        assert isinstance(again, StreamingResponse)
        await member.client.delete(PODS, "default", "talker", grace_seconds=0)
        assert [chunk async for chunk in again.chunks] == [b"first\nsecond\n"]

    run_in_member(scenario)
