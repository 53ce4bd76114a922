"""A training loop of your own: BatchEnsemble and CAMixup on the digits of scikit-learn. Takes a few seconds.

    python examples/own_loop.py

`fit` is right for every mixer and every ensemble of calmix: exchange either and leave the loop as it is.
"""

import torch
from sklearn.datasets import load_digits

import calmix


def load():
    """Training, validation and test rows as (x, y), x in [0, 1]."""
    pixels, digits = load_digits(return_X_y=True)
    x, y = torch.from_numpy(pixels).float() / 16, torch.from_numpy(digits)
    return [(x[rows], y[rows]) for rows in (slice(0, 1000), slice(1000, 1300), slice(1300, None))]


def make_network():
    layers = [torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(128, 10)]
    return torch.nn.Sequential(*layers)


def fit(model, mixer, train, val, *, epochs=20, lr=0.05, seed=0):
    (x, y), (val_x, val_y) = train, val
    groups = calmix.parameter_groups(model, weight_decay=2e-4)
    optimiser = torch.optim.SGD(groups, lr=lr, momentum=0.9)
    generator = torch.Generator().manual_seed(seed)
    for _ in range(epochs):
        model.train()
        for index in torch.randperm(len(x), generator=generator).split(100):
            batch = mixer(x[index], y[index], index=index, generator=generator)
            logits = model(batch.inputs, per_member=True)
            loss = batch.loss(logits).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            mixer.observe(logits, y[index], index)  # for mixers that learn from training, as ForgettingMixup
        model.eval()
        with torch.no_grad():
            mixer.update(model(val_x), val_y)  # on which classes is each member over-confident?


def evaluate(model, test):
    x, y = test
    model.eval()
    with torch.no_grad():
        probs = calmix.pool(model(x))
    return calmix.metrics.accuracy(probs, y), calmix.metrics.ece(probs, y)


def main(seed=0):
    train, val, test = load()
    for name, mixer in {
        "Mixup": calmix.Mixup(num_classes=10, members=4),
        "CAMixup": calmix.CAMixup(num_classes=10, members=4),
    }.items():
        torch.manual_seed(seed)
        model = calmix.BatchEnsemble(make_network(), members=4)
        fit(model, mixer, train, val, seed=seed)
        accuracy, ece = evaluate(model, test)
        share = mixer.history.float().mean()
        print(f"{name:8} accuracy {accuracy:.3f}  ECE {ece:.3f}  mixed in {share:.0%} of epochs and classes")


if __name__ == "__main__":
    main()
