"""Metrics in batches and processes equal the functions of `calmix.metrics` on all examples."""

import pickle

import pytest
import torch

from calmix import metrics, pool
from calmix.errors import InputError

torchmetrics = pytest.importorskip("torchmetrics")
from calmix.integrations import torchmetrics as integration  # noqa: E402

CLASSES = 4
NAMES = {
    "ECE": "ece",
    "SCE": "sce",
    "Accuracy": "accuracy",
    "Gap": "gap",
    "NLL": "nll",
    "Brier": "brier",
    "ClassGap": "class_gap",
}


def examples(seed=0, size=101):
    draw = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(3, size, CLASSES, generator=draw)
    return logits, torch.randint(CLASSES, (size,), generator=draw)


def expected(name, probs, labels):
    return torch.as_tensor(getattr(metrics, NAMES[name])(probs, labels), dtype=torch.float64)


def equal(value, wanted):
    torch.testing.assert_close(value, wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_batches_equal_the_function_on_all_examples(name):
    logits, labels = examples()
    metric = getattr(integration, name)(CLASSES)
    probs = pool(logits)
    for p, y in zip(probs.split(17), labels.split(17), strict=True):
        metric.update(p, y)
    equal(metric.compute(), expected(name, probs, labels))
    metric.reset()
    with pytest.warns(UserWarning, match="before the"):  # a word of torchmetrics
        assert metric.compute().isnan().all()
    metric.update(probs[:5], labels[:5])
    equal(metric.compute(), expected(name, probs[:5], labels[:5]))


@pytest.mark.parametrize("name", NAMES)
def test_binary_probabilities(name):
    logits, labels = examples()
    p, y = logits[0, :, 0].double().sigmoid(), (labels > 1).long()
    metric = getattr(integration, name)(num_classes=1)
    metric.update(p, y)
    equal(metric.compute(), expected(name, p, y))
    from_logits = getattr(integration, name)(num_classes=1, values="logits")
    from_logits.update(logits[0, :, 0], y)
    equal(from_logits.compute(), expected(name, p, y))


def test_members_are_pooled():
    logits, labels = examples()
    by_logits, by_probs = integration.ECE(CLASSES, values="logits"), integration.ECE(CLASSES)
    by_logits.update(logits, labels)
    by_probs.update(logits.double().softmax(-1), labels)
    equal(by_logits.compute(), expected("ECE", pool(logits), labels))
    assert float(by_probs.compute()) == pytest.approx(float(by_logits.compute()), abs=1e-6)
    single = integration.ECE(CLASSES, values="logits")
    single.update(logits[1], labels)
    equal(single.compute(), expected("ECE", logits[1].softmax(-1), labels))


def test_bins():
    logits, labels = examples()
    metric = integration.ECE(CLASSES, num_bins=3)
    metric.update(pool(logits), labels)
    assert float(metric.compute()) == pytest.approx(metrics.ece(pool(logits), labels, num_bins=3), abs=1e-12)


def test_collection():
    logits, labels = examples()
    probs = pool(logits)
    collection = torchmetrics.MetricCollection({name: getattr(integration, name)(CLASSES) for name in NAMES})
    for p, y in zip(probs.split(40), labels.split(40), strict=True):
        batch_values = collection(p, y)  # forward: the values of this batch, and accumulate
        equal(batch_values["ECE"], expected("ECE", p, y))
    for name, value in collection.compute().items():
        equal(value, expected(name, probs, labels))


def test_a_collection_keeps_metrics_apart_that_agree_on_the_first_batch():
    """On one-hot rows with two thirds right, the sums of Accuracy and Brier are equal: 2 of 3 and 2 x 1."""
    first, labels = torch.eye(2)[[0, 1, 0]], torch.tensor([0, 1, 1])
    second, others = torch.tensor([[0.6, 0.4]]), torch.tensor([0])
    collection = torchmetrics.MetricCollection([integration.Accuracy(2), integration.Brier(2)])
    collection.update(first, labels)
    collection.update(second, others)
    probs, labels = torch.cat([first, second]), torch.cat([labels, others])
    for name, value in collection.compute().items():
        equal(value, expected(name, probs, labels))


@pytest.mark.parametrize("name", NAMES)
def test_two_processes_sync_to_the_whole(name):
    """What torchmetrics does: gather the states of all processes, then reduce them by `dist_reduce_fx`."""
    logits, labels = examples()
    probs = pool(logits)
    other = getattr(integration, name)(CLASSES)
    other.update(probs[60:], labels[60:])
    sums = f"{NAMES[name]}_sums"
    metric = getattr(integration, name)(
        CLASSES,
        dist_sync_fn=lambda state, group=None: [state, getattr(other, sums)],
        distributed_available_fn=lambda: True,
    )
    metric.update(probs[:60], labels[:60])
    equal(metric.compute(), expected(name, probs, labels))


def test_pickle_clone_and_state_dict():
    logits, labels = examples()
    metric = integration.ECE(CLASSES)
    metric.persistent(True)
    metric.update(pool(logits), labels)
    equal(pickle.loads(pickle.dumps(metric)).compute(), metric.compute())
    equal(metric.clone().compute(), metric.compute())
    loaded = integration.ECE(CLASSES)
    loaded.load_state_dict(metric.state_dict())
    assert torch.equal(loaded.ece_sums, metric.ece_sums)


def test_half_precision_leaves_the_sums_alone():
    """Lightning calls `half()` on a module with its metrics."""
    metric = integration.ECE(CLASSES).half()
    assert metric.ece_sums.dtype == torch.float64


def test_bad_input_is_refused_and_changes_nothing():
    logits, labels = examples()
    probs = pool(logits)
    metric = integration.ECE(CLASSES)
    metric.update(probs, labels)
    before = metric.ece_sums.clone()
    for preds, target, words in (
        (logits[0], labels, "softmax"),
        (probs[:, :3], labels, r"give \(N, 4\)"),
        (probs[:, 0], labels, "num_classes=1"),
        (probs, labels + 1, "must be in 0..3"),
        (probs, labels[:5], "one for each row"),
    ):
        with pytest.raises(InputError, match=words):
            metric.update(preds, target)
    assert torch.equal(metric.ece_sums, before)
    with pytest.raises(InputError, match="probabilities"):
        integration.ECE(CLASSES, values="logits").update(probs, labels)
    with pytest.raises(InputError, match="did you mean 'logits'"):
        integration.ECE(CLASSES, values="logit")
    with pytest.raises(InputError, match="num_bins"):
        integration.ECE(CLASSES, num_bins=0)
