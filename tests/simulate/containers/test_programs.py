"""Images that cannot be pulled, and servers that log their start, by convention."""

import random

import pytest

from trimtab.server.admission.dynamic.service_calls import ServerRequest
from trimtab.simulate.containers.files import Files
from trimtab.simulate.containers.programs import ContainerContext, find_launch, pull_error


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


@pytest.mark.parametrize("image", ["nginx:1.19.0", "httpd:2.4", "registry.k8s.io/e2e-test-images/agnhost:2.53"])
def test_server_logs_its_start_and_runs_for_ever(image: str) -> None:
    launch = find_launch({"image": image}, ContainerContext({}, Files(), random.Random(0)))
    assert launch is not None
    lines: list[str] = []
    running = launch.program(lines.append)
    assert next(running) > 0
    assert len(lines) == 1
    assert lines[0].endswith("\n")


def test_images_of_the_update_demonstration_serve_their_data() -> None:
    launch = find_launch(
        {"image": "registry.k8s.io/e2e-test-images/nautilus:1.7"}, ContainerContext({}, Files(), random.Random(0))
    )
    assert launch is not None
    assert launch.server is not None
    assert launch.server.respond(ServerRequest("/data.json")).body == '{"image": "nautilus.jpg"}\n'


@pytest.mark.parametrize(("mount", "code"), [("/rootfs", 0), ("/elsewhere", None)])
def test_nsenter_runs_a_command_on_the_files_of_the_node(mount: str, code: int | None) -> None:
    machine = {"etc/containerd/config.toml": "[plugins.runtimes.fast]\n"}
    context = ContainerContext({}, Files({mount: machine}), random.Random(0))
    script = "grep -q 'runtimes.fast' /etc/containerd/config.toml"
    command = ["nsenter", "--mount=/rootfs/proc/1/ns/mnt", "--", "sh", "-c", script]
    launch = find_launch({"image": "agnhost", "command": command}, context)
    if code is None:
        assert launch is None
    else:
        assert launch is not None
        with pytest.raises(StopIteration) as end:
            next(launch.program(lambda _: None))
        assert end.value.value == code
