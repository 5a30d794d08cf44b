"""`trimtab install`: what is installed can be printed, and kinds of others are left alone."""

import yaml

from cli.processes import run_command
from trimtab.cli.commands.install import is_changed

IMAGE = ("--image", "registry.example.com/trimtab:1")


def test_printed_objects_are_the_kinds_the_checks_and_the_controllers() -> None:
    done = run_command("install", *IMAGE, "--print", "--skip-group", "work.karmada.io", "-n", "elsewhere")
    objects = list(yaml.load_all(done.out, Loader=yaml.CSafeLoader))
    kinds = [obj["kind"] for obj in objects]
    assert kinds.index("CustomResourceDefinition") < kinds.index("Namespace") < kinds.index("Deployment")
    groups = {obj["spec"]["group"] for obj in objects if obj["kind"] == "CustomResourceDefinition"}
    assert "trimtab.dev" in groups
    assert "work.karmada.io" not in groups
    (deployment,) = (obj for obj in objects if obj["kind"] == "Deployment")
    assert deployment["metadata"]["namespace"] == "elsewhere"
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == "registry.example.com/trimtab:1"
    assert "--leader-elect-resource-namespace=elsewhere" in container["args"]


def test_unknown_group_is_refused() -> None:
    done = run_command("install", *IMAGE, "--print", "--skip-group", "other.io")
    assert done.code == 1
    assert "--skip-group other.io: there are no such kinds" in done.err


def test_change_is_recognised_without_a_new_resource_version() -> None:
    stored = {"metadata": {"name": "a", "resourceVersion": "1", "generation": 1}, "spec": {"image": "old"}}
    fields = [{"manager": "trimtab"}]
    same = {**stored, "metadata": {**stored["metadata"], "resourceVersion": "2", "managedFields": fields}}
    assert not is_changed(stored, same)
    assert is_changed(stored, {**stored, "spec": {"image": "new"}}), "as a dry run answers"
