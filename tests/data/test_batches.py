from itertools import chain

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from calmix import InputError, data
from calmix.data import Part


def numbered(n=23, groups=False):
    """All pixels of image i are i, its label is i % 3, its group i % 5."""
    index = torch.arange(n)
    images = index.to(torch.uint8).view(n, 1, 1, 1).repeat(1, 2, 3, 1)
    return Part(images, index % 3, index % 5 if groups else None)


def indices(batches):
    return [batch.index.tolist() for batch in batches]


def joined(lists):
    return list(chain.from_iterable(lists))


def test_batch_has_the_examples_of_its_index():
    for batch in data.train_batches(numbered(groups=True), batch_size=5):
        assert batch.inputs.shape == (5, 1, 2, 3)
        assert batch.inputs.dtype == torch.float32
        assert torch.equal(batch.inputs[:, 0, 1, 2], batch.index.float() / 255)
        assert torch.equal(batch.labels, batch.index % 3)
        assert torch.equal(batch.groups, batch.index % 5)


def test_images_are_scaled_to_one_and_vectors_are_not():
    white = Part(torch.full((1, 2, 2, 3), 255, dtype=torch.uint8), torch.zeros(1, dtype=torch.int64))
    assert next(data.test_batches(white)).inputs.unique().tolist() == [1.0]
    points = torch.tensor([[-3.0, 7.5], [1.0, 2.0]])
    batch = next(data.test_batches(Part(points, torch.tensor([1, 0]))))
    assert torch.equal(batch.inputs, points)
    assert batch.groups is None


def test_epoch_has_no_example_twice_and_drops_the_last_partial_batch():
    seen = joined(indices(data.train_batches(numbered(23), batch_size=5)))
    assert len(seen) == 20
    assert len(set(seen)) == 20


def test_only_batch_may_be_partial():
    (only,) = data.train_batches(numbered(23), batch_size=128)
    assert sorted(only.index.tolist()) == list(range(23))


def test_order_depends_only_on_seed_member_and_epoch():
    def order(**key):
        return indices(data.train_batches(numbered(), batch_size=5, **key))

    first = order(seed=1, epoch=2, member=3)
    torch.manual_seed(99)
    assert order(seed=1, epoch=2, member=3) == first
    assert order(seed=0, epoch=2, member=3) != first
    assert order(seed=1, epoch=0, member=3) != first
    assert order(seed=1, epoch=2, member=0) != first


@given(st.integers(1, 40), st.integers(1, 10), st.integers(0, 2**40), st.data())
def test_start_resumes_the_epoch(n, batch_size, seed, draw):
    whole = indices(data.train_batches(numbered(n), batch_size=batch_size, seed=seed))
    assert len(whole) == data.steps_per_epoch(n, batch_size)
    start = draw.draw(st.integers(0, len(whole)))
    assert (
        indices(data.train_batches(numbered(n), batch_size=batch_size, seed=seed, start=start))
        == whole[start:]
    )


@pytest.mark.parametrize("n", [23, 7])
def test_shards_joined_are_the_whole_batch(n):
    whole = indices(data.train_batches(numbered(n), batch_size=8))
    shards = [indices(data.train_batches(numbered(n), batch_size=8, shard=r, shards=4)) for r in range(4)]
    assert [joined(pieces) for pieces in zip(*shards, strict=True)] == whole
    if n == 23:
        assert {len(piece) for shard in shards for piece in shard} == {2}


@given(st.integers(1, 30), st.integers(1, 12), st.integers(1, 5))
def test_test_batches_have_every_example_once_in_order(n, batch_size, shards):
    shards_indices = [
        indices(data.test_batches(numbered(n), batch_size=batch_size, shard=r, shards=shards))
        for r in range(shards)
    ]
    assert joined(joined(shards_indices)) == list(range(n))
    assert max(len(batch) for shard in shards_indices for batch in shard) <= batch_size


def test_part_on_another_device():
    part = numbered(4, groups=True)
    part = Part(part.inputs.to("meta"), part.labels.to("meta"), part.groups.to("meta"))
    (batch,) = data.train_batches(part, batch_size=4, device="meta")
    assert {t.device.type for t in (batch.inputs, batch.labels, batch.index, batch.groups)} == {"meta"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size must be at least 1, got .*0"),
        ({"batch_size": 5, "shards": 2}, "batch_size must be a multiple of shards = 2, got 5"),
        ({"shard": 1}, "got shard = 1, shards = 1"),
        ({"shard": 0, "shards": 0}, "got shard = 0, shards = 0"),
        ({"batch_size": 5, "start": 5}, "start must be in 0..4, the steps of an epoch, got 5"),
    ],
)
def test_bad_options_of_train_batches_raise_before_the_first_batch(options, message):
    with pytest.raises(InputError, match=message):
        data.train_batches(numbered(), **options)


def test_bad_options_of_test_batches_raise():
    with pytest.raises(InputError, match="batch_size must be at least 1, got 0"):
        data.test_batches(numbered(), batch_size=0)
    with pytest.raises(InputError, match="got shard = 3, shards = 2"):
        data.test_batches(numbered(), shard=3, shards=2)


def test_as_bytes_has_the_same_images():
    key = {"batch_size": 5, "seed": 3, "epoch": 1}
    pairs = zip(
        data.train_batches(numbered(), **key),
        data.train_batches(numbered(), as_bytes=True, **key),
        strict=True,
    )
    for floats, stored in pairs:
        assert stored.inputs.dtype == torch.uint8
        assert torch.equal(data.as_floats(stored.inputs), floats.inputs)
        assert torch.equal(stored.index, floats.index)
