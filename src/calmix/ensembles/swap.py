"""Exchange parts of a module for others, wherever they stand."""

from collections.abc import Callable

from torch import nn


def has_hooks(part: nn.Module) -> bool:
    """Whether calling a part does more than its class says, which is lost when it is swapped."""
    hooks = (part._forward_hooks, part._forward_pre_hooks, part._backward_hooks, part._backward_pre_hooks)
    return any(hooks) or "forward" in vars(part)


def swap_modules(root: nn.Module, swap: Callable[[nn.Module], nn.Module | None]) -> nn.Module:
    """`root`, changed in place: each part for which `swap` has another is exchanged for it, itself included.

    A part that is used in several places is swapped once and stays shared; parts in evaluation stay in it.
    What was swapped out is emptied: a reference to it outside the tree of modules (in a plain list, say)
    fails when it is called, where it would otherwise go on computing something else.

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
