"""Augmentation: an image transform, then a mixing of pairs, then a softening of labels.

Transforms (`crop_flip`, `random_resized_crop`, `AugMix`) take and give images (..., C, H, W). Mixers take
images and labels and give a `Batch` of inputs, soft targets and row weights; they differ in how pairs are
mixed (`Mixup`, `CutMix`, `RegMixup`, `MixupMP`) and in who is mixed (`CAMixup`, `ForgettingMixup`). Anything
goes with anything:

    batch = mixer(transform(x), y, generator=g)
    losses = cross_entropy(model(batch.inputs, per_member=True), batch.targets)     # (members, rows)
    loss = (batch.weights * losses).sum(1) / y.shape[-1]                            # (members,)
"""

from calmix.augment.augmix import AugMix
from calmix.augment.camixup import CAMixup
from calmix.augment.crop_flip import crop_flip
from calmix.augment.everyone import CutMix, Everyone, Mixup, MixupMP, RegMixup, Unmixed
from calmix.augment.forgetting import ForgettingMixup
from calmix.augment.labels import one_hot, smooth_labels
from calmix.augment.losses import cross_entropy, jensen_shannon
from calmix.augment.mixing import Batch, Plan
from calmix.augment.resized_crop import random_resized_crop

Mixer = Everyone | CAMixup | ForgettingMixup

__all__ = [
    "AugMix",
    "Batch",
    "CAMixup",
    "CutMix",
    "Everyone",
    "ForgettingMixup",
    "Mixer",
    "Mixup",
    "MixupMP",
    "Plan",
    "RegMixup",
    "Unmixed",
    "crop_flip",
    "cross_entropy",
    "jensen_shannon",
    "one_hot",
    "random_resized_crop",
    "smooth_labels",
]
