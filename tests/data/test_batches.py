from itertools import chain

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from calmix import InputError, data
from calmix.data import Part


def numbered(n=23, groups=False):
    """Image i is i everywhere, its label i % 3, its group i % 5."""
    where = torch.arange(n)
    images = where.to(torch.uint8).view(n, 1, 1, 1).repeat(1, 2, 3, 1)
    return Part(images, where % 3, where % 5 if groups else None)


def indices(batches):
    return [batch.index.tolist() for batch in batches]


def joined(lists):
    return list(chain.from_iterable(lists))


def test_a_batch_holds_what_its_index_says():
    for batch in data.train_batches(numbered(groups=True), batch_size=5):
        assert batch.inputs.shape == (5, 1, 2, 3)
        assert batch.inputs.dtype == torch.float32
        assert torch.equal(batch.inputs[:, 0, 1, 2], batch.index.float() / 255)
        assert torch.equal(batch.labels, batch.index % 3)
        assert torch.equal(batch.groups, batch.index % 5)


def test_white_is_one_and_vectors_are_left_alone():
    white = Part(torch.full((1, 2, 2, 3), 255, dtype=torch.uint8), torch.zeros(1, dtype=torch.int64))
    assert next(data.test_batches(white)).inputs.unique().tolist() == [1.0]
    points = torch.tensor([[-3.0, 7.5], [1.0, 2.0]])
    batch = next(data.test_batches(Part(points, torch.tensor([1, 0]))))
    assert torch.equal(batch.inputs, points)
    assert batch.groups is None


def test_an_epoch_shows_no_example_twice_and_drops_the_last_partial_batch():
    seen = joined(indices(data.train_batches(numbered(23), batch_size=5)))
    assert len(seen) == 20
    assert len(set(seen)) == 20


def test_a_partial_batch_stays_where_it_is_the_only_one():
    (only,) = data.train_batches(numbered(23), batch_size=128)
    assert sorted(only.index.tolist()) == list(range(23))


def test_order_depends_on_seed_member_and_epoch_alone():
    def order(**key):
        return indices(data.train_batches(numbered(), batch_size=5, **key))

    first = order(seed=1, epoch=2, member=3)
    torch.manual_seed(99)
    assert order(seed=1, epoch=2, member=3) == first
    assert order(seed=0, epoch=2, member=3) != first
    assert order(seed=1, epoch=0, member=3) != first
    assert order(seed=1, epoch=2, member=0) != first


def test_members_together_see_what_each_sees_alone():
    part = numbered(groups=True)
    together = list(data.train_batches(part, batch_size=5, epoch=4, member=[2, 0]))
    for row, member in enumerate((2, 0)):
        alone = list(data.train_batches(part, batch_size=5, epoch=4, member=member))
        assert len(together) == len(alone) == 4
        for both, one in zip(together, alone, strict=True):
            for name in ("inputs", "labels", "index", "groups"):
                assert torch.equal(getattr(both, name)[row], getattr(one, name))
    assert next(data.train_batches(part, batch_size=5, member=[7])).inputs.shape == (1, 5, 1, 2, 3)


@given(st.integers(1, 40), st.integers(1, 10), st.integers(0, 2**40), st.data())
def test_resuming_goes_on_where_the_epoch_stopped(n, batch_size, seed, draw):
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
def test_testing_shows_every_example_once_in_order(n, batch_size, shards):
    shown = [
        indices(data.test_batches(numbered(n), batch_size=batch_size, shard=r, shards=shards))
        for r in range(shards)
    ]
    assert joined(joined(shown)) == list(range(n))
    assert max(len(batch) for shard in shown for batch in shard) <= batch_size


def test_a_part_elsewhere_gives_batches_where_they_are_asked_for():
    (batch,) = data.train_batches(numbered(4, groups=True).to("meta"), batch_size=4, device="meta")
    assert {t.device.type for t in (batch.inputs, batch.labels, batch.index, batch.groups)} == {"meta"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size: 0"),
        ({"batch_size": 5, "shards": 2}, "batch_size: 5 does not divide by shards, 2"),
        ({"shard": 1}, "shard: 1 of 1"),
        ({"shard": 0, "shards": 0}, "shard: 0 of 0"),
        ({"batch_size": 5, "start": 5}, "start: step 5 of an epoch of 4"),
        ({"member": []}, "member: an empty sequence"),
    ],
)
def test_wrong_options_are_refused_before_the_first_batch(options, message):
    with pytest.raises(InputError, match=message):
        data.train_batches(numbered(), **options)


def test_wrong_options_of_testing_are_refused_too():
    with pytest.raises(InputError, match="batch_size: 0"):
        data.test_batches(numbered(), batch_size=0)
    with pytest.raises(InputError, match="shard: 3 of 2"):
        data.test_batches(numbered(), shard=3, shards=2)


def test_bytes_are_the_same_images():
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
