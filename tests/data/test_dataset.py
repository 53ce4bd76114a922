import pytest
import torch

from calmix import InputError
from calmix.data import Part


def image_part(n=6, groups=True):
    inputs = torch.arange(n * 4 * 5 * 3).remainder(251).to(torch.uint8).view(n, 4, 5, 3)
    return Part(inputs, torch.arange(n) % 2, torch.arange(n) * 10 if groups else None)


def test_shape_is_that_of_a_network_input():
    assert image_part().shape == (3, 4, 5)
    assert Part(torch.zeros(7, 2), torch.zeros(7, dtype=torch.int64)).shape == (2,)


def test_take():
    part = image_part()
    index = torch.tensor([4, 1, 4])
    taken = part.take(index)
    assert torch.equal(taken.inputs, part.inputs[index])
    assert taken.labels.tolist() == [0, 1, 0]
    assert taken.groups.tolist() == [40, 10, 40]
    assert image_part(groups=False).take(index).groups is None


def test_read_has_channels_first_for_any_strides():
    plain = image_part()
    channels_first = Part(plain.inputs.permute(0, 3, 1, 2).contiguous().permute(0, 2, 3, 1), plain.labels)
    index = torch.tensor([3, 0, 5, 5])
    for part in (plain, channels_first):
        (images,) = part.read([index])
        assert images.shape == (4, 3, 4, 5)
        assert torch.equal(images[2], plain.inputs[5].permute(2, 0, 1))
        assert torch.equal(images[1], plain.inputs[0].permute(2, 0, 1))


@pytest.mark.parametrize(
    ("inputs", "labels", "message"),
    [
        (torch.zeros(3, 4, 4, 1).double(), torch.zeros(3).long(), "inputs must be .* got torch.float64"),
        (torch.zeros(3, 2), torch.zeros(2, dtype=torch.int64), r"labels must be int64 \(3,\), got .* \(2,\)"),
        (torch.zeros(3, 2), torch.zeros(3), "labels must be .* got torch.float32"),
    ],
)
def test_bad_tensors_raise(inputs, labels, message):
    with pytest.raises(InputError, match=message):
        Part(inputs, labels)
