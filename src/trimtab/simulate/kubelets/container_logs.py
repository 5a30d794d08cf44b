"""The output of `kubectl logs` for a simulated container: its starts and ends, as its kubelet reported them."""

from collections.abc import Iterator

from trimtab.api.value import Raw


def format_container_log(pod: Raw, container: str, *, previous: bool) -> str:
    """The log of one container; with `previous`, of its previous run."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    status: Raw = next((one for one in statuses if one.get("name") == container), {})
    return "".join(f"{line}\n" for line in log_lines(container, status, previous=previous))


def log_lines(container: str, status: Raw, *, previous: bool) -> Iterator[str]:
    before = (status.get("lastState") or {}).get("terminated")
    if previous:
        yield from ended_lines(container, before)
        return
    state = status.get("state") or {}
    if running := state.get("running"):
        yield started_line(container, running)
        if status.get("ready"):
            yield f"{container}: ready; it is simulated, no process runs here"
    elif terminated := state.get("terminated"):
        yield from ended_lines(container, terminated)
    else:
        yield from ended_lines(container, before)


def started_line(container: str, run: Raw) -> str:
    return f"{run.get('startedAt', '')} {container}: started"


def ended_lines(container: str, run: Raw | None) -> Iterator[str]:
    if not run:
        return
    if run.get("startedAt"):
        yield started_line(container, run)
    reason, code = run.get("reason") or "ended", run.get("exitCode", 0)
    yield f"{run.get('finishedAt', '')} {container}: {reason}, exit code {code}"
