"""Replace modules inside of a module."""

from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType, NoneType
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

Module = TypeVar("Module", bound=nn.Module)


def has_hooks(part: nn.Module) -> bool:
    """Whether a call does more than the forward of its class, which replacing the part would lose."""
    hooks = (part._forward_hooks, part._forward_pre_hooks, part._backward_hooks, part._backward_pre_hooks)
    return any(hooks) or "forward" in vars(part) or part._compiled_call_impl is not None


def swap_modules(root: nn.Module, swap: Callable[[nn.Module], nn.Module | None]) -> nn.Module:
    """`root`, changed in place: every module for which `swap` returns another is replaced, `root` included.

    If `swap` returns the module itself, it stays as it is, with all that is inside. A module that is used in
    several places is replaced once and stays shared; the training mode is kept. Replaced modules are emptied:
    a reference to one outside of the module tree (in a plain list, for example) then fails when it is called,
    instead of silently computing something else.

    >>> swap_modules(nn.Sequential(nn.ReLU()), lambda m: nn.GELU() if isinstance(m, nn.ReLU) else None)
    Sequential(
      (0): GELU(approximate='none')
    )
    """
    done: dict[nn.Module, nn.Module] = {}

    def visit(module: nn.Module) -> nn.Module:
        if module not in done:
            other = swap(module)
            done[module] = module if other is None else other
            done[module].training = module.training
            if other is None:
                for name, child in list(module._modules.items()):
                    if child is not None:
                        module.register_module(name, visit(child))
        return done[module]

    swapped = visit(root)
    for old, new in done.items():
        if old is not new:
            vars(old).clear()
    return swapped


def shallow_copy(module: Module, **attributes: Any) -> Module:
    """A second module with the same values, except for the given `attributes`."""
    copy = object.__new__(type(module))
    vars(copy).update(vars(module) | attributes)
    return copy


def with_replaced(module: nn.Module, replacements: dict[nn.Module, nn.Module]) -> nn.Module:
    """`module` with parts replaced, itself unchanged: modules around a replaced part are shallow copies.

    Every part must be self-contained: any other reference would still lead to the replaced part. Copies are
    added to the dictionary, so that a shared part stays shared.

    >>> net = nn.Sequential(nn.ReLU())
    >>> with_replaced(net, {net[0]: nn.GELU()}), net
    (Sequential(
      (0): GELU(approximate='none')
    ), Sequential(
      (0): ReLU()
    ))
    """
    if module not in replacements:
        parts = {
            name: None if part is None else with_replaced(part, replacements)
            for name, part in module._modules.items()
        }
        same = all(part is module._modules[name] for name, part in parts.items())
        replacements[module] = module if same else shallow_copy(module, _modules=parts)
    return replacements[module]


STANDARD_ATTRIBUTES = frozenset(vars(nn.Module()))
PLAIN = (
    NoneType,
    bool,
    int,
    float,
    complex,
    str,
    torch.dtype,
    torch.device,
    Tensor,
    type,
    BuiltinFunctionType,
)


def is_self_contained(module: nn.Module) -> bool:
    """Whether a module refers to others only as registered children, not in a list or by a bound method."""
    return all(is_plain(value) for name, value in vars(module).items() if name not in STANDARD_ATTRIBUTES)


def is_plain(value: object) -> bool:
    if isinstance(value, (list, tuple, set)):
        return all(map(is_plain, value))
    if isinstance(value, dict):
        return all(map(is_plain, value.values()))
    return isinstance(value, PLAIN) or (isinstance(value, FunctionType) and value.__closure__ is None)
