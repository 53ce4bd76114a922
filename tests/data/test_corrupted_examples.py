import numpy as np
import pytest
import torch

from calmix import InputError, corrupt, data
from calmix.data.corrupted import Corrupted, read_corrupted, write_corrupted


@pytest.fixture
def part():
    images = torch.randint(0, 256, (70, 32, 32, 3), generator=torch.Generator().manual_seed(0))
    return data.Part(images.to(torch.uint8), torch.arange(70) % 7)


def images_of(examples, batch_size):
    batches = data.test_batches(examples, batch_size=batch_size)
    return torch.cat([batch.inputs for batch in batches])


def test_batches_equal_the_corrupted_whole(part):
    whole = corrupt(part.inputs, "gaussian_noise", 3, seed=5).permute(0, 3, 1, 2) / 255
    corrupted = Corrupted(part, "gaussian_noise", 3, seed=5)
    for batch_size in (7, 64, 70):
        torch.testing.assert_close(images_of(corrupted, batch_size), whole, rtol=0, atol=1e-7)


def test_unordered_batches_raise(part):
    with pytest.raises(InputError, match="in order"):
        list(Corrupted(part, "contrast", 1).read([torch.tensor([3, 1])]))


def test_corruption_of_vectors_raises():
    clusters = data.load("clusters").test
    with pytest.raises(InputError, match="contrast needs images"):
        Corrupted(clusters, "contrast", 1)


def test_read_corrupted_at_indices(part, tmp_path):
    write_corrupted(part.inputs, part.labels, tmp_path, names=["contrast"])
    index = torch.tensor([3, 20, 69])
    read = read_corrupted(tmp_path, "contrast", 4, index, part.labels[index])
    expected = np.asarray(corrupt(part.inputs, "contrast", 4))[index]
    np.testing.assert_array_equal(read.inputs, expected)


def test_read_corrupted_with_other_labels_raises(part, tmp_path):
    write_corrupted(part.inputs, part.labels, tmp_path, names=["contrast"])
    with pytest.raises(InputError, match="image 5 has the label 5, but 0 in the test set"):
        read_corrupted(tmp_path, "contrast", 1, torch.tensor([4, 5]), torch.tensor([4, 0]))
    with pytest.raises(InputError, match="70 images"):
        read_corrupted(tmp_path, "contrast", 1, torch.tensor([70]), torch.tensor([0]))
