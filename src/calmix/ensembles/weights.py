"""What a model may read of the weight of a layer that has one for each member."""

from typing import Any, NoReturn

import torch
from torch import Tensor


class WeightProperties:
    """Type, device and shape of a weight, without its values.

    Some models read `layer.weight.dtype` to cast their input. Computing with `layer.weight` around the layer
    would leave out the members' factors, so that is an error.
    """

    def __init__(self, weight: Tensor) -> None:
        self.dtype: torch.dtype = weight.dtype
        self.device: torch.device = weight.device
        self.shape: torch.Size = weight.shape
        self.ndim: int = weight.ndim
        self.requires_grad: bool = weight.requires_grad

    def size(self, axis: int | None = None) -> torch.Size | int:
        return self.shape if axis is None else self.shape[axis]

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> NoReturn:
        raise AttributeError(
            "the weight of a BatchEnsemble layer is read around the layer, which would ignore the members' "
            "factors: call the layer instead, or keep it common to all members with share="
        )

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"the weight of a BatchEnsemble layer has no {name!r}: each member has another weight; call the "
            "layer instead, or keep it common to all members with share="
        )
