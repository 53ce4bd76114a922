"""What all networks have in common: sizes, inputs, saving, and gradients to every parameter."""

import pytest
import torch
from torch import nn

from calmix.models import mlp, resnet50, small_resnet, wide_resnet

MAKERS = {
    "wide_resnet": lambda **options: wide_resnet(10, 1, 7, **options),
    "small_resnet": lambda **options: small_resnet(7, 8, **options),
    "resnet50": lambda **options: resnet50(7, **options),
}


def count(net):
    return sum(p.numel() for p in net.parameters())


def test_published_sizes():
    with torch.device("meta"):
        assert count(wide_resnet(28, 10, num_classes=10)) == 36_479_194
        assert count(wide_resnet(28, 10, num_classes=100)) == 36_536_884
        assert count(resnet50(num_classes=1000)) == 25_557_032


@pytest.mark.parametrize("name", MAKERS)
def test_grey_images_of_any_size(name):
    net = MAKERS[name](in_channels=1).eval()
    for size in ((8, 8), (28, 28), (33, 17)):
        assert net(torch.rand(2, 1, *size)).shape == (2, 7)


@pytest.mark.parametrize("name", MAKERS)
def test_normalisation_is_part_of_the_network(name):
    torch.manual_seed(0)
    mean, std = (0.1, 0.2, 0.3), (0.5, 0.6, 0.7)
    net, plain = MAKERS[name](mean=mean, std=std).eval(), MAKERS[name]().eval()
    plain.load_state_dict({k: v for k, v in net.state_dict().items() if "normalise" not in k}, strict=True)
    x = torch.rand(2, 3, 8, 8)
    shift, scale = (torch.tensor(values).view(3, 1, 1) for values in (mean, std))
    torch.testing.assert_close(net(x), plain((x - shift) / scale))
    assert not torch.allclose(net(x), plain(x))
    other = MAKERS[name](mean=std, std=std).eval()
    other.load_state_dict(net.state_dict(), strict=True)
    assert torch.equal(other(x), net(x))


@pytest.mark.parametrize("name", MAKERS)
def test_every_parameter_learns_and_every_image_stands_for_itself(name):
    torch.manual_seed(0)
    net = MAKERS[name]()
    x = torch.rand(4, 3, 16, 16)
    net(x).square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in net.parameters())
    net.eval()
    torch.testing.assert_close(net(x)[2:3], net(x[2:3]), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", MAKERS)
def test_weights_start_he_normal(name):
    torch.manual_seed(0)
    for part in MAKERS[name]().modules():
        if isinstance(part, nn.Conv2d):
            assert part.bias is None
            fan_in = part.weight[0].numel()
            spread = 4 * (2 / fan_in) ** 0.5 / (2 * part.weight.numel()) ** 0.5
            assert part.weight.std().item() == pytest.approx((2 / fan_in) ** 0.5, abs=spread)
        elif isinstance(part, nn.BatchNorm2d):
            assert (part.eps, part.momentum) == (1e-5, 0.1)
        elif isinstance(part, nn.Linear):
            assert not part.bias.any()


@pytest.mark.parametrize(("name", "blocks"), [("wide_resnet", 3), ("small_resnet", 3), ("resnet50", 16)])
def test_dropout_stands_once_in_a_block(name, blocks):
    net = MAKERS[name](dropout=0.1)
    assert [part.p for part in net.modules() if isinstance(part, nn.Dropout)] == [0.1] * blocks


def test_the_fold_keeps_every_pixel():
    torch.manual_seed(0)
    net = small_resnet(in_channels=1).eval()
    x = torch.rand(1, 1, 5, 5, requires_grad=True)
    net(x).square().sum().backward()
    assert (x.grad != 0).all()


def test_the_fold_puts_pixels_where_trained_weights_expect_them():
    net, seen = small_resnet().eval(), []
    net.stem.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    x = torch.rand(2, 3, 8, 6)
    net(x)
    assert torch.equal(seen[0], nn.functional.pixel_unshuffle(net.normalise(x), 2))
    assert seen[0].is_contiguous(memory_format=torch.channels_last)


def test_mlp():
    net = mlp(3, 10, 4, dropout=0.25, mean=(1, 2, 3), std=(2, 2, 2)).eval()
    assert [type(part).__name__ for part in net] == (
        ["Normalise", "Linear", "ReLU", "Dropout", "Linear", "ReLU", "Dropout", "Linear"]
    )
    assert count(net) == 3 * 10 + 10 + 10 * 10 + 10 + 10 * 4 + 4
    assert net[3].p == net[6].p == 0.25
    x = torch.rand(5, 3)
    hidden = torch.relu(net[4](torch.relu(net[1]((x - torch.tensor([1.0, 2, 3])) / 2))))
    torch.testing.assert_close(net(x), net[7](hidden))


def test_mlp_takes_images_by_channel():
    net = mlp(2 * 4 * 3, 10, 5, in_channels=2, mean=(1, 2), std=(2, 4))
    x = torch.rand(6, 2, 4, 3)
    points = ((x - torch.tensor([1.0, 2]).view(2, 1, 1)) / torch.tensor([2.0, 4]).view(2, 1, 1)).flatten(1)
    plain = mlp(2 * 4 * 3, 10, 5)
    plain.load_state_dict(dict(zip(plain.state_dict(), list(net.state_dict().values())[2:], strict=True)))
    torch.testing.assert_close(net(x), plain(points))


@pytest.mark.parametrize("training", [False, True], ids=["evaluation", "training"])
@pytest.mark.parametrize("name", MAKERS)
def test_what_is_passed_in_stays_as_it_was(name, training):
    net = MAKERS[name]().train(training)
    images = torch.randn(2, 3, 32, 32).contiguous(memory_format=torch.channels_last)
    block, features = net.blocks[0], torch.randn(2, net.stem.out_channels, 8, 8)
    kept = images.clone(), features.clone()
    net(images), block(features)
    assert torch.equal(images, kept[0])
    assert torch.equal(features, kept[1])
