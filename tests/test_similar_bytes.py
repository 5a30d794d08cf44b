import orjson
import pytest

from trimtab.similar_bytes import EditedBytes, SamplePacker


def manifest(number: int) -> bytes:
    labels = {"app": f"web-{number}", "managed": "true"}
    return orjson.dumps({"metadata": {"name": f"web-{number}", "labels": labels}, "spec": {"replicas": number}})


@pytest.mark.parametrize(
    "value", [b"", b"x", manifest(1), bytes(range(256)) * 40], ids=["empty", "byte", "json", "binary"]
)
def test_a_packed_value_unpacks_to_itself(value: bytes) -> None:
    packer = SamplePacker()
    assert [packer.pack("works", value).unpack() for _ in range(2)] == [value, value]


def test_values_like_the_first_of_their_group_shrink_to_a_fraction() -> None:
    packer = SamplePacker()
    packed = [packer.pack("works", manifest(number)) for number in range(20)]
    assert max(len(one.data) for one in packed[1:]) < len(manifest(19)) / 3
    assert {id(one.sample) for one in packed} == {id(packed[0].sample)}
    assert [one.unpack() for one in packed] == [manifest(number) for number in range(20)]


def test_a_sample_that_no_longer_fits_is_replaced() -> None:
    packer = SamplePacker()
    packer.pack("works", b"nothing in common" * 3)
    packed = [packer.pack("works", manifest(number)) for number in range(300)]
    assert len(packed[-1].data) < len(packed[0].data) / 2
    assert packed[0].unpack() == manifest(0)


def test_an_edited_value_has_other_texts_than_its_original_and_holds_only_them() -> None:
    original = manifest(1)
    edited = EditedBytes(original, ((b"web-1", b"web-22"),))
    assert edited.unpack() == original.replace(b"web-1", b"web-22")
    assert edited.size == len(b"web-22")
