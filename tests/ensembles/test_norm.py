"""Synchronised batch norm: two processes with parts of a batch against one process with all of it."""

import copy

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

from calmix.ensembles import BatchEnsemble, DeepEnsemble, MCDropout, synchronise
from calmix.ensembles.norm import MemberNorm, SynchronisedNorm
from calmix.errors import InputError

MEMBERS = 2
SHARES = (3, 5)


def network():
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(3, 4, 3),
        nn.BatchNorm2d(4, momentum=None),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(16, 5),
        nn.BatchNorm1d(5),
    )
    with torch.no_grad():
        net[1].weight.normal_()
        net[5].bias.normal_()
    return net.double()


def run(model: nn.Module, x: torch.Tensor, weight: torch.Tensor) -> dict[str, torch.Tensor]:
    """Two passes, so that running statistics move twice; the gradients of the second."""
    x = x.clone().requires_grad_()
    model(x, per_member=True)
    out = model(x, per_member=True)
    (out * weight).sum().backward()
    gradients = {f"gradient of {name}": p.grad for name, p in model.named_parameters()}
    evaluated = model.eval()(x, per_member=True).detach()
    return {"out": out.detach(), "evaluated": evaluated, "x": x.grad, **gradients, **model.state_dict()}


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    rows = sum(SHARES)
    x = 3 + torch.randn(MEMBERS, rows, 3, 4, 4, dtype=torch.float64, generator=generator)
    return x, torch.randn(MEMBERS, rows, 5, dtype=torch.float64, generator=generator)


def ensembles() -> list[nn.Module]:
    return [
        BatchEnsemble(network(), MEMBERS, member_norm=member_norm, generator=torch.Generator().manual_seed(2))
        for member_norm in (False, True)
    ]


def work(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{folder}/meeting", rank=rank, world_size=len(SHARES))
    own = slice(sum(SHARES[:rank]), sum(SHARES[: rank + 1]))
    x, weight = batch()
    results = [run(synchronise(model), x[:, own], weight[:, own]) for model in ensembles()]
    torch.save(results, f"{folder}/{rank}.pt")
    dist.destroy_process_group()


def test_two_processes_equal_one_on_the_joined_batch(tmp_path):
    mp.spawn(work, (str(tmp_path),), nprocs=len(SHARES))
    parts = [torch.load(tmp_path / f"{rank}.pt") for rank in range(len(SHARES))]
    for i, model in enumerate(ensembles()):
        for name, want in run(model, *batch()).items():
            got = [part[i][name] for part in parts]
            if name in ("out", "evaluated", "x"):
                torch.testing.assert_close(torch.cat(got, 1), want, rtol=0, atol=1e-10)
            elif name.startswith("gradient"):
                torch.testing.assert_close(sum(got), want, rtol=0, atol=1e-9)
            else:
                for value in got:
                    torch.testing.assert_close(value, want, rtol=0, atol=1e-10)


@pytest.mark.parametrize("training", [False, True])
def test_one_process_alone_has_plain_batch_norm(training):
    plain = network().train(training)
    x = batch()[0][0]
    other = synchronise(copy.deepcopy(plain))
    assert sum(isinstance(part, SynchronisedNorm) for part in other.modules()) == 2
    assert torch.equal(other(x), plain(x))
    other.load_state_dict(plain.state_dict(), strict=True)


def test_parameters_and_buffers_stay_the_same_objects():
    model = BatchEnsemble(network(), member_norm=True)
    before = [*model.parameters(), *model.buffers()]
    assert synchronise(model) is model
    assert all(a is b for a, b in zip(before, [*model.parameters(), *model.buffers()], strict=True))
    assert sum(isinstance(part, SynchronisedNorm) for part in model.modules()) == 2 * 4


def test_every_ensemble_and_a_module_already_synchronised():
    net = synchronise(nn.Sequential(nn.BatchNorm1d(3), nn.Dropout(), nn.Linear(3, 2)))
    for model in (
        BatchEnsemble(net),
        BatchEnsemble(net, member_norm=True),
        DeepEnsemble([net]),
        MCDropout(net),
    ):
        norms = [part for part in model.modules() if isinstance(part, SynchronisedNorm)]
        members = sum(isinstance(part, MemberNorm) for part in model.modules())
        assert len(norms) == (4 if members else 1)
        assert model(torch.rand(5, 3)).shape[1:] == (5, 2)


def test_norms_that_do_more_than_normalise_are_refused_by_name():
    class Rectified(nn.BatchNorm1d):
        def forward(self, x):
            return super().forward(x).relu()

    hooked = nn.BatchNorm1d(3)
    hooked.register_forward_hook(lambda module, args, out: None)
    for norm, name in ((Rectified(3), "Rectified"), (hooked, "BatchNorm1d")):
        with pytest.raises(InputError, match=rf"1 \({name}\) is not a plain batch norm, or has hooks"):
            synchronise(nn.Sequential(nn.Linear(3, 3), norm))
