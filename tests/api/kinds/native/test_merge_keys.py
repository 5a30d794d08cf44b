from trimtab.api.kinds.native import merge_keys
from trimtab.api.kinds.native.fields import has_message, message


def test_merge_rules_separate_list_keys_patch_key_and_strategy() -> None:
    volumes = merge_keys.merge_rules()["core.v1.PodSpec"]["volumes"]
    assert (volumes.list_keys, volumes.patch_key, volumes.strategy) == (("name",), "name", "merge,retainKeys")
    ports = merge_keys.merge_rules()["core.v1.Container"]["ports"]
    assert (ports.list_keys, ports.patch_key) == (("containerPort", "protocol"), "containerPort")


def test_list_without_keys_is_a_set() -> None:
    finalizers = merge_keys.merge_rules()["meta.v1.ObjectMeta"]["finalizers"]
    assert (finalizers.is_set, finalizers.list_keys, finalizers.strategy) == (True, (), "merge")
    assert not merge_keys.merge_rules()["core.v1.PodSpec"]["volumes"].is_set


def test_strategy_can_be_given_without_keys() -> None:
    selector = merge_keys.merge_rules()["policy.v1.PodDisruptionBudgetSpec"]["selector"]
    assert (selector.strategy, selector.patch_key, selector.is_set) == ("replace", "", False)


def test_every_entry_names_an_existing_field() -> None:
    paths = [f"{owner}.{field}" for owner, fields in merge_keys.merge_rules().items() for field in fields]
    for path in [*paths, *merge_keys.enum_values(), *merge_keys.ATOMIC_MAPS, *merge_keys.GRANULAR_FIELDS]:
        owner, _, field = path.rpartition(".")
        assert field in message(owner).json_fields, path
    assert all(has_message(name) for name in merge_keys.ATOMIC_MESSAGES)
