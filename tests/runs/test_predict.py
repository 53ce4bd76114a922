import pytest
import torch

from calmix.runs.build import build_ensemble, load_splits
from calmix.runs.predict import predict_logits
from tests.scenarios import tiny

TEST = load_splits(tiny(), None).test


def model(ensemble):
    return build_ensemble(tiny(ensemble), TEST.shape, 10)


@pytest.mark.parametrize("ensemble", ["single", "deep", "batch"])
def test_the_size_of_batches_does_not_matter(ensemble):
    network = model(ensemble)
    whole = predict_logits(network, TEST)
    assert whole.shape == (tiny(ensemble).members, 50, 10)
    assert whole.dtype == torch.float32
    torch.testing.assert_close(predict_logits(network, TEST, batch_size=7), whole, atol=1e-5, rtol=1e-4)
    expected = network.eval()(torch.cat(list(TEST.read([torch.arange(50)]))).float() / 255)
    torch.testing.assert_close(whole, expected)


def test_shards_are_contiguous_ranges_of_the_whole():
    network = model("batch")
    whole = predict_logits(network, TEST)
    parts = [predict_logits(network, TEST, shard=k, shards=3) for k in range(3)]
    assert [part.shape[1] for part in parts] == [16, 17, 17]
    torch.testing.assert_close(torch.cat(parts, dim=1), whole, atol=1e-5, rtol=1e-4)


def test_the_draws_of_mc_dropout_follow_from_the_seed():
    network = model("mc")
    first = predict_logits(network, TEST, seed=3)
    torch.manual_seed(5)
    assert torch.equal(predict_logits(network, TEST, seed=3), first)
    assert not torch.equal(predict_logits(network, TEST, seed=4), first)
    assert not torch.equal(first[0], first[1])


@pytest.mark.parametrize("training", [True, False])
def test_the_mode_is_left_as_it_was(training):
    network = model("batch").train(training)
    predict_logits(network, TEST)
    assert network.training is training
    assert all(module.training is training for module in network.modules())


def test_progress_counts_images():
    calls = []
    predict_logits(model("single"), TEST, batch_size=20, progress=lambda *call: calls.append(call))
    assert calls == [(20, 50), (40, 50), (50, 50)]
