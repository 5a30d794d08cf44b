from trimtab.store.keys import group_prefix, object_key, resource_prefix


def test_core_group_has_a_name_in_keys() -> None:
    assert group_prefix("") == "/registry/core/"
    assert resource_prefix("", "pods") == "/registry/core/pods/"
    assert resource_prefix("apps", "deployments") == "/registry/apps/deployments/"


def test_key_of_an_object_without_a_namespace_has_one_name() -> None:
    assert object_key("", "pods", "team", "web") == "/registry/core/pods/team/web"
    assert object_key("", "nodes", "n1") == object_key("", "nodes", "", "n1") == "/registry/core/nodes/n1"
