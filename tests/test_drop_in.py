"""The two stories of the README: parts in a loop of one's own, and predictions from another framework."""

import warnings

import torch
from torch import nn

import calmix
from calmix import metrics


def test_a_practitioner_with_a_loop_of_her_own():
    draw = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    centres = 2 * torch.randn(3, 8, generator=draw)
    y = torch.arange(300) % 3
    x = centres[y] + torch.randn(300, 8, generator=draw)
    x, y, val_x, val_y = x[:200], y[:200], x[200:], y[200:]

    network = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
    model = calmix.BatchEnsemble(network, members=4)
    mixer = calmix.CAMixup(num_classes=3, members=4)
    optimiser = torch.optim.SGD(calmix.parameter_groups(model, weight_decay=2e-4), lr=0.1, momentum=0.9)
    for _ in range(10):
        model.train()
        for rows in torch.randperm(len(x), generator=draw).split(50):
            batch = mixer(x[rows], y[rows], generator=draw)
            loss = batch.loss(model(batch.inputs, per_member=True)).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        model.eval()
        with torch.no_grad():
            val_logits = model(val_x)
        mixer.update(val_logits, val_y)

    pooled = calmix.pool(val_logits)
    assert metrics.accuracy(pooled, val_y) > 0.85
    assert metrics.ece(pooled, val_y) < 0.2
    assert mixer.history.shape == (10, 4, 3)


def test_an_auditor_with_a_classifier_of_another_framework(tmp_path):
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split
    from sklearn.naive_bayes import GaussianNB

    images, labels = load_digits(return_X_y=True)
    train, test, train_labels, test_labels = train_test_split(images, labels, random_state=0)
    classifier = GaussianNB().fit(train, train_labels)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        log_probs = classifier.predict_log_proba(test)

    calmix.save_predictions(tmp_path / "bayes.npz", log_probs, test_labels)
    report = calmix.audit(calmix.load_predictions(tmp_path / "bayes.npz"), resamples=100)

    assert report.verdict == "over-confident"  # what naive Bayes is known for
    assert report.temperature.pool > 1
    assert report.temperature.ece_after_pool < report.metrics["ece"].value
