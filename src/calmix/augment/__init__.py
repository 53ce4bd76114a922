"""Augmentation: an image transform, then a mixing of pairs, then a softening of labels.

Transforms (`crop_flip`, `random_resized_crop`, `AugMix`) take and give images (..., C, H, W). Mixers take
images and labels and give a `Batch` of inputs, soft targets and row weights; they differ in how pairs are
mixed (`Mixup`, `CutMix`, `RegMixup`, `MixupMP`) and in which examples are (`CAMixup`, `ForgettingMixup`, or
`where=` a policy of the user's own). Any transform goes with any mixer:

    batch = mixer(transform(x), y, generator=g)
    loss = batch.loss(model(batch.inputs, per_member=True)).mean()
"""

from calmix.augment.augmix import AugMix
from calmix.augment.batch import Batch
from calmix.augment.camixup import CAMixup
from calmix.augment.crop import crop_flip
from calmix.augment.forgetting import ForgettingMixup
from calmix.augment.labels import one_hot, smooth_labels
from calmix.augment.losses import cross_entropy, jensen_shannon
from calmix.augment.mixer import Mixer
from calmix.augment.mixing import Plan
from calmix.augment.mixup import CutMix, Mixup, MixupMP, NoMixing, RegMixup
from calmix.augment.policy import Policy
from calmix.augment.resized_crop import random_resized_crop

__all__ = [
    "AugMix",
    "Batch",
    "CAMixup",
    "CutMix",
    "ForgettingMixup",
    "Mixer",
    "Mixup",
    "MixupMP",
    "NoMixing",
    "Plan",
    "Policy",
    "RegMixup",
    "crop_flip",
    "cross_entropy",
    "jensen_shannon",
    "one_hot",
    "random_resized_crop",
    "smooth_labels",
]
