"""A training batch as the network sees it: crop and flip, AugMix, mixing, then label smoothing."""

from dataclasses import replace

import torch
from torch import Tensor

from calmix import augment, data
from calmix.runs.embedding import batch_of
from calmix.runs.recipe import Recipe


class BatchViews:
    """The augmentation of a recipe for one stream of training."""

    def __init__(self, recipe: Recipe, mixer: augment.Mixer, member: int) -> None:
        self.recipe = recipe
        self.mixer = mixer
        clean = recipe.augmix_clean_first and member == 0 and recipe.ensemble == "deep"
        self.augmix = None
        if recipe.transform == "augmix" and not clean:
            self.augmix = augment.AugMix(severity=recipe.severity, alpha=recipe.augmix_alpha)

    def __call__(self, batch: data.Batch, generator: torch.Generator) -> list[augment.Batch]:
        """One view of every image; for a consistency term the clean one and two of AugMix, mixed alike."""
        recipe, images = self.recipe, batch.inputs
        if recipe.pad or recipe.flip:
            images = augment.crop_flip(images, pad=recipe.pad, flip=recipe.flip, generator=generator)
        views = self._transform(data.as_floats(images), generator)
        leading = views[0].shape[: views[0].ndim - images.ndim]  # members with images of their own
        groups = batch.groups if recipe.by_group else None
        plan = self.mixer.plan(
            batch.labels.expand(*leading, -1),
            group=None if groups is None else groups.expand(*leading, -1),
            index=batch.index.expand(*leading, -1),
            per_member=bool(leading),
            generator=generator,
        )
        batches = [plan(view) for view in views]
        if recipe.smoothing:
            smooth = augment.smooth_labels
            batches = [replace(batch, targets=smooth(batch.targets, recipe.smoothing)) for batch in batches]
        return batches

    def plan_inside(
        self, batch: data.Batch, members: int, generator: torch.Generator
    ) -> tuple[list[augment.Batch], augment.Plan]:
        """The batch to be mixed inside the network, and the plan by which it is."""
        recipe, images = self.recipe, batch.inputs
        if recipe.pad or recipe.flip:
            images = augment.crop_flip(images, pad=recipe.pad, flip=recipe.flip, generator=generator)
        (view,) = self._transform(data.as_floats(images), generator)
        groups = batch.groups if recipe.by_group else None
        plan = self.mixer.plan(
            batch.labels.expand(members, -1),
            group=None if groups is None else groups.expand(members, -1),
            index=batch.index.expand(members, -1),
            per_member=True,
            generator=generator,
        )
        mixed = batch_of(plan, view if view.ndim > images.ndim else view.unsqueeze(0))
        if recipe.smoothing:
            mixed = replace(mixed, targets=augment.smooth_labels(mixed.targets, recipe.smoothing))
        return [mixed], plan

    def _transform(self, images: Tensor, generator: torch.Generator) -> list[Tensor]:
        recipe = self.recipe
        if self.augmix is None:
            return [images]
        if recipe.consistency:
            return [images, *(self.augmix(images, generator=generator) for _ in range(2))]
        if recipe.augmix_clean_first and recipe.ensemble == "batch":
            others = images.expand(recipe.members - 1, *images.shape)
            return [torch.cat([images[None], self.augmix(others, generator=generator)])]
        return [self.augmix(images, generator=generator)]
