"""Which parts of a network BatchEnsemble converts, which stay common, and which it must refuse."""

from collections.abc import Sequence
from dataclasses import dataclass
from types import MethodType

from torch import nn
from torch.nn.modules.instancenorm import _InstanceNorm

from calmix.ensembles.layers import is_layer
from calmix.ensembles.norm import BATCH_NORMS, SynchronisedNorm
from calmix.ensembles.share import Share, is_shared_parameter, name_matches, shared_modules, unmatched_entries
from calmix.ensembles.swap import has_hooks
from calmix.errors import InputError

ROW_STATISTICS = (*BATCH_NORMS, SynchronisedNorm, nn.SyncBatchNorm)
"""Norms that compute their statistics over the rows of the batch."""
NORMS = (*ROW_STATISTICS, _InstanceNorm, nn.GroupNorm, nn.LayerNorm, nn.RMSNorm)
"""Norms are common to all members, subclasses included (ConvNeXt's LayerNorm2d)."""
OWN_COPY = (nn.PReLU,)
"""Layers with so few parameters that every member gets its own copy."""


@dataclass(frozen=True)
class Refused:
    """A part with parameters of its own that no rank-one layer can carry."""

    name: str
    part: nn.Module
    parameters: tuple[str, ...]

    def __str__(self) -> str:
        more = f" (and {len(self.parameters) - 1} more)" if len(self.parameters) > 1 else ""
        return f"{label(self.name, self.part)} owns the parameter {self.parameters[0]!r}{more}"


def label(name: str, part: nn.Module) -> str:
    return f"{name or 'the module itself'} ({type(part).__name__})"


def common_parts(module: nn.Module, share: Sequence[Share]) -> set[nn.Module]:
    """The modules that stay as they are, by `share`; InputError for all that could not be converted.

    Parts whose parameters no rank-one layer can carry (embeddings, tokens, layer scale, LSTM, packed attention
    projections) are all named at once, with the `share=` that would accept them.
    """
    kept = shared_modules(module, share)
    kept |= {
        part
        for name, part in module.named_modules()
        if is_layer(part) and all(is_shared_parameter(p, share) for p in parameter_names(name, part))
    }
    refused = refused_parts(module, kept, share)
    if refused:
        raise InputError(refusal(module, kept, share, refused))
    for name, part in module.named_modules():
        refuse_own_forward(name, part)
        if part not in kept:
            refuse_hooks(name, part)
            refuse_batch_second(name, part)
    refuse_ties(module, kept)
    return kept


def parameter_names(name: str, part: nn.Module) -> list[str]:
    return [own for own, _ in part.named_parameters(prefix=name, recurse=False)]


def refused_parts(module: nn.Module, kept: set[nn.Module], share: Sequence[Share]) -> list[Refused]:
    refused: list[Refused] = []
    inside: set[nn.Module] = set()
    for name, part in module.named_modules():
        if part in kept or part in inside or is_layer(part) or isinstance(part, (*NORMS, *OWN_COPY)):
            continue
        own = [p for p in parameter_names(name, part) if not is_shared_parameter(p, share)]
        if own:
            refused.append(Refused(name, part, tuple(p.rpartition(".")[2] for p in own)))
            if is_torch_layer(part):  # to be shared as a whole
                inside.update(part.modules())
    return refused


def is_torch_layer(part: nn.Module) -> bool:
    return getattr(nn, type(part).__name__, None) is type(part)


def refusal(module: nn.Module, kept: set[nn.Module], share: Sequence[Share], refused: list[Refused]) -> str:
    entries = [code(entry) for entry in share]
    entries += [entry for part in refused for entry in suggested_entries(module, kept, part)]
    unique = list(dict.fromkeys(entries))
    line = f"share=({', '.join(unique)}{',' if len(unique) == 1 else ''})"
    unknown = unmatched_entries(module, share)
    spelling = f" ({', '.join(map(repr, unknown))} in share matches nothing.)" if unknown else ""
    listed = "\n".join(f"  {part}" for part in refused)
    return (
        f"{type(module).__name__} has parameters that cannot differ between members by a rank-one factor, as "
        f"those of linear layers and convolutions do:\n{listed}\n"
        f"Keep them common to all members with\n  {line}\nor use a DeepEnsemble.{spelling}"
    )


def code(entry: Share) -> str:
    if isinstance(entry, str):
        return f'"{entry}"'
    return f"nn.{entry.__name__}" if getattr(nn, entry.__name__, None) is entry else entry.__name__


def suggested_entries(module: nn.Module, kept: set[nn.Module], refused: Refused) -> list[str]:
    """Entries for `share`, as code, that accept the refused part and keep no convertible layer common."""
    if is_torch_layer(refused.part):
        return [f"nn.{type(refused.part).__name__}"]
    if refused.name and not any(True for _ in refused.part.children()):
        return [f'"{shortest_pattern(module, kept, refused.name)}"']
    prefix = f"{refused.name}." if refused.name else ""
    return [f'"{shortest_pattern(module, kept, prefix + name)}"' for name in refused.parameters]


def shortest_pattern(module: nn.Module, kept: set[nn.Module], name: str) -> str:
    """The shortest pattern for `name` that matches no convertible layer, nor a module that contains one."""
    parts = name.split(".")
    wild = ".".join("*" if part.isdigit() else part for part in parts)
    for pattern in (parts[-1], wild):
        if set(pattern) <= set("*.0123456789"):
            continue
        names = (other for other, part in module.named_modules() if contains_layer(part, kept))
        if not any(name_matches(other, pattern) for other in names):
            return pattern
    return name


def contains_layer(part: nn.Module, kept: set[nn.Module]) -> bool:
    return any(is_layer(inner) and inner not in kept for inner in part.modules())


def refuse_own_forward(name: str, part: nn.Module) -> None:
    own = vars(part).get("forward")
    if own is None:
        return
    if isinstance(own, MethodType) and own.__self__ is part and own.__func__ is type(part).forward:
        return  # the method of its class, stored on the instance: a copy of the module copies it rightly
    raise InputError(
        f"{label(name, part)} has a forward that was set on this one instance, which would still call the "
        "parts of the original: make it a method of its class"
    )


def refuse_hooks(name: str, part: nn.Module) -> None:
    weight = part._parameters.get("weight")
    if is_layer(part) and (has_hooks(part) or not isinstance(weight, nn.Parameter)):
        raise InputError(
            f"{label(name, part)} has hooks or a parametrised weight, which the conversion would lose: remove "
            "them first"
        )


def refuse_batch_second(name: str, part: nn.Module) -> None:
    """The linear layers of a transformer layer with batch_first=False would see the sequence as the batch."""
    if not isinstance(part, (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)):
        return
    if not part.self_attn.batch_first:
        raise InputError(
            f"{label(name, part)} has batch_first=False, but its linear layers need the batch as the first axis: "
            f"build it with batch_first=True, or keep it common with share=(nn.{type(part).__name__},)"
        )


def refuse_ties(module: nn.Module, kept: set[nn.Module]) -> None:
    """A weight used by two parts cannot be converted in one of them; ties between common parts are fine."""
    owners: dict[nn.Parameter, tuple[str, nn.Module]] = {}
    for name, part in module.named_modules():
        for own, parameter in part.named_parameters(recurse=False):
            other_name, other = owners.setdefault(parameter, (name, part))
            converted = any(is_layer(p) and p not in kept for p in (part, other))
            if other is not part and converted:
                raise InputError(
                    f"{label(name, part)} shares its {own} with {label(other_name, other)}: untie them, keep "
                    f"both common with share=({name!r}, {other_name!r}), or use a DeepEnsemble"
                )
