"""Every transform with every mixer with every ensemble: a step of training, and the end of an epoch."""

import dataclasses
import itertools

import pytest
import torch
from torch import nn

from calmix.augment import (
    AugMix,
    CAMixup,
    CutMix,
    ForgettingMixup,
    Mixup,
    MixupMP,
    RegMixup,
    crop_flip,
    jensen_shannon,
    random_resized_crop,
    smooth_labels,
)

ensembles = pytest.importorskip("calmix.ensembles")

CLASSES, EXAMPLES, BATCH, MEMBERS = 4, 24, 6, 3


def network() -> nn.Module:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(3 * 8 * 8, 5), nn.Tanh(), nn.Dropout(0.1), nn.Linear(5, CLASSES)
    )


TRANSFORMS = {
    "none": lambda x, generator: x,
    "crop and flip": lambda x, generator: crop_flip(x, pad=1, generator=generator),
    "resized crop": lambda x, generator: random_resized_crop(x, 8, generator=generator),
    "augmix": lambda x, generator: AugMix()(x, generator=generator),
    "augmix of the scripts": lambda x, generator: AugMix.paper_code()(x, generator=generator),
}
MIXERS = {
    "mixup": lambda members: Mixup(CLASSES),
    "mixup of each member": lambda members: Mixup(CLASSES, members=members),
    "cutmix": lambda members: CutMix(CLASSES, members=members),
    "regmixup": lambda members: RegMixup(CLASSES),
    "mixupmp": lambda members: MixupMP(CLASSES, members=members),
    "camixup": lambda members: CAMixup(CLASSES, members=members),
    "camixup of the pool": lambda members: CAMixup(CLASSES, members=members, gap_of="pool"),
    "cacutmix": lambda members: CAMixup(CLASSES, members=members, mix="cutmix", gap_of="pool"),
    "forgetting": lambda members: ForgettingMixup(CLASSES, EXAMPLES, members=members),
}
ENSEMBLES = {
    "batch": lambda: ensembles.BatchEnsemble(network(), members=MEMBERS),
    "deep": lambda: ensembles.DeepEnsemble([network() for _ in range(MEMBERS)]),
    "dropout": lambda: ensembles.MCDropout(network(), samples=MEMBERS),
}


@pytest.mark.parametrize(
    ("transform", "mixer", "ensemble"), list(itertools.product(TRANSFORMS, MIXERS, ENSEMBLES))
)
def test_a_step_and_an_epoch(transform, mixer, ensemble):
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    model = ENSEMBLES[ensemble]()
    members = 1 if ensemble == "dropout" else MEMBERS  # in training
    mixer = MIXERS[mixer](members)
    images, labels = torch.rand(EXAMPLES, 3, 8, 8, generator=generator), torch.arange(EXAMPLES) % CLASSES
    everything = torch.arange(EXAMPLES)
    mixer.observe(torch.zeros(members, EXAMPLES, CLASSES), labels, everything)
    mixer.update(torch.zeros(members, EXAMPLES, CLASSES), labels)
    index = torch.randperm(EXAMPLES, generator=generator)[:BATCH]
    x, y = images[index].expand(members, -1, -1, -1, -1), labels[index].expand(members, -1)
    plan = mixer.plan(y, per_member=True, index=index.expand(members, -1), generator=generator)
    views = [plan(x), plan(TRANSFORMS[transform](x, generator))]
    logits = torch.stack([model(view.inputs, per_member=True) for view in views])
    soft = dataclasses.replace(views[1], targets=smooth_labels(views[1].targets, 0.1))
    loss = soft.loss(logits[1]).sum() + jensen_shannon(logits).mean()
    loss.backward()
    assert logits.shape[1:3] == views[1].weights.shape
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())

    mixer.observe(logits[1].detach(), y, index.expand(members, -1))
    with torch.no_grad():
        validation = model.eval()(images)
    mixer.update(validation, labels)
