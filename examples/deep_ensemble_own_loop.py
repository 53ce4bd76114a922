"""A deep ensemble trained with CAMixup in a loop of your own, on the digits of scikit-learn. A few seconds.

    python examples/deep_ensemble_own_loop.py

Members are independent: each has its own order of the examples, its own draws and its own decision about
the classes to mix. One optimiser serves all, which changes nothing: the SUM of the members' losses gives each
the gradient that it would have alone.
"""

import torch
from sklearn.datasets import load_digits

import calmix

MEMBERS = 4


def load():
    """Training, validation and test rows as (x, y), x in [0, 1]."""
    pixels, digits = load_digits(return_X_y=True)
    x, y = torch.from_numpy(pixels).float() / 16, torch.from_numpy(digits)
    return [(x[rows], y[rows]) for rows in (slice(0, 1000), slice(1000, 1300), slice(1300, None))]


def make_network():
    return torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))


def fit(model, mixer, train, val, *, epochs=20, lr=0.05, seed=0):
    (x, y), (val_x, val_y) = train, val
    groups = calmix.parameter_groups(model, weight_decay=2e-4)
    optimiser = torch.optim.SGD(groups, lr=lr, momentum=0.9)
    generator = torch.Generator().manual_seed(seed)
    for _ in range(epochs):
        model.train()
        orders = torch.stack([torch.randperm(len(x), generator=generator) for _ in range(MEMBERS)])
        for index in orders.split(100, dim=1):  # (MEMBERS, 100): other examples for each member
            batch = mixer(x[index], y[index], per_member=True, index=index, generator=generator)
            logits = model(batch.inputs, per_member=True)
            loss = batch.loss(logits).sum()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            mixer.observe(logits, y[index], index)
        model.eval()
        with torch.no_grad():
            mixer.update(model(val_x), val_y)


def main(seed=0):
    train, val, test = load()
    torch.manual_seed(seed)
    model = calmix.DeepEnsemble([make_network() for _ in range(MEMBERS)])
    mixer = calmix.CAMixup(num_classes=10, members=MEMBERS)
    fit(model, mixer, train, val, seed=seed)

    model.eval()
    with torch.no_grad():
        logits = model(test[0])
    for k, member in enumerate(logits):
        probs = member.softmax(-1)
        accuracy, ece = calmix.metrics.accuracy(probs, test[1]), calmix.metrics.ece(probs, test[1])
        print(f"member {k}  accuracy {accuracy:.3f}  ECE {ece:.3f}  classes mixed {mixer.active[k].sum()}")
    probs = calmix.pool(logits)
    accuracy, ece = calmix.metrics.accuracy(probs, test[1]), calmix.metrics.ece(probs, test[1])
    print(f"pool      accuracy {accuracy:.3f}  ECE {ece:.3f}")


if __name__ == "__main__":
    main()
