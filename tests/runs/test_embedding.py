import inspect

import pytest
import torch
from torch import nn

from calmix import BatchEnsemble, DeepEnsemble, InputError, MixupMP, RegMixup, augment
from calmix.progress import ignore
from calmix.runs import api
from calmix.runs.embedding import Embedded, batch_of, find_module, mix_points, mixing
from calmix.runs.launch import Machine
from tests.own import FAST, write_code, write_npz
from tests.scenarios import weights

TOKENS = torch.tensor([[1, 2, 0], [3, 0, 0], [4, 5, 6], [2, 2, 2]])
LABELS = torch.tensor([0, 1, 2, 0])


class Bag(nn.Module):
    """Says what it is given: the embeddings of all places, then the mask."""

    def __init__(self, masked=True):
        super().__init__()
        self.table = nn.Embedding(8, 2)
        if masked:
            self.mask = lambda x: x != 0

    def embed(self, x):
        return self.table(x)

    def forward_embedded(self, e, mask=None):
        flat = e.flatten(1)
        return flat if mask is None else torch.cat([flat, mask.float()], dim=1)

    def forward(self, x):
        return self.forward_embedded(self.embed(x), self.mask(x))


def plan_for(mixer, members):
    draw = torch.Generator().manual_seed(3)
    return mixer.plan(LABELS.expand(members, -1), per_member=True, generator=draw)


def test_embeddings_labels_and_masks_are_mixed_alike():
    network = Bag()
    model = DeepEnsemble([Embedded(network)])
    plan = plan_for(augment.Mixup(3), 1)
    batch = batch_of(plan, TOKENS[None])
    with mixing(mix_points(model, ""), [plan]):
        (out,) = model(batch.inputs, per_member=True)
    partner, lam = plan.partner[0], plan.lam[0]
    clean = network.embed(TOKENS).flatten(1)
    lam = torch.where(partner == torch.arange(4), torch.ones(4), lam)[:, None]
    torch.testing.assert_close(out[:, :6], lam * clean + (1 - lam) * clean[partner])
    both = (TOKENS != 0) | (TOKENS != 0)[partner]
    assert torch.equal(out[:, 6:].bool(), both)
    expected = lam * torch.eye(3)[LABELS] + (1 - lam) * torch.eye(3)[LABELS[partner]]
    torch.testing.assert_close(batch.targets[0], expected)
    assert torch.equal(model(TOKENS)[0], network(TOKENS))  # nothing is mixed outside of the block


def test_masks_of_numbers_are_combined_by_the_maximum():
    network = Bag()
    network.mask = lambda x: x.float()
    model = DeepEnsemble([Embedded(network)])
    plan = plan_for(augment.Mixup(3), 1)
    with mixing(mix_points(model, ""), [plan]):
        (out,) = model(TOKENS)
    expected = torch.maximum(TOKENS, TOKENS[plan.partner[0]]).float()
    assert torch.equal(out[:, 6:], expected)


@pytest.mark.parametrize("kind", [RegMixup, MixupMP])
def test_clean_rows_come_before_the_mixed_ones(kind):
    network = Bag(masked=False)
    model = DeepEnsemble([Embedded(network)])
    plan = plan_for(kind(3), 1)
    batch = batch_of(plan, TOKENS[None])
    assert batch.inputs.shape == (1, 8, 3)
    with mixing(mix_points(model, ""), [plan]):
        (out,) = model(batch.inputs, per_member=True)
    clean = network.embed(TOKENS).flatten(1)
    assert torch.equal(out[:4], clean)
    torch.testing.assert_close(out[4:], plan(clean[None]).inputs[0, 4:])


def test_members_of_a_batch_ensemble_have_plans_of_their_own():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(3, 2), nn.Tanh())
    model = BatchEnsemble(network, 2)
    x = torch.rand(4, 3)
    plan = plan_for(augment.Mixup(3, members=2), 2)
    points = mix_points(model, "0")
    with mixing(points, [plan]):
        out = model(x)
    hidden = torch.stack([model.member(k)[0](x) for k in range(2)])
    torch.testing.assert_close(out, plan(hidden).inputs.tanh())
    torch.testing.assert_close(model(x), hidden.tanh())


def test_shards_lie_side_by_side():
    model = DeepEnsemble([Embedded(Bag(masked=False))])
    plans = [plan_for(augment.Mixup(3), 1) for _ in range(2)]
    both = torch.cat([TOKENS, TOKENS.flip(0)])
    with mixing(mix_points(model, ""), plans):
        (out,) = model(both)
    for plan, rows, got in zip(plans, both.split(4), out.split(4), strict=True):
        with mixing(mix_points(model, ""), [plan]):
            torch.testing.assert_close(model(rows)[0], got)


def test_modules_that_are_not_there():
    with pytest.raises(InputError, match="mix_after 'tabel' is no module of the network; there are table"):
        find_module(Bag(), "tabel")


def train(folder, **fields):
    write_code(folder)
    path = write_npz(folder / "tokens.npz", "tokens")
    start = {**FAST, "dataset": path, "out": folder / "runs", "reporter": ignore, "network": "text", **fields}
    start["network"] = f"{folder}/nets.py:{start['network']}"
    return api.train(machine=Machine(accelerator="cpu"), **start)


@pytest.mark.parametrize(
    ("ensemble", "augment_", "members"),
    [("single", "mixup", 1), ("deep", "camixup", 2), ("mc", "regmixup", 2), ("deep", "camixup-by-pool", 2)],
)
def test_text_end_to_end(tmp_path, ensemble, augment_, members):
    run = train(tmp_path, ensemble=ensemble, augment=augment_, members=members)
    assert run.predictions("test").logits.shape == (members, 20, 3)
    plain = train(tmp_path, ensemble=ensemble, members=members)
    assert weights(run) != weights(plain)


def test_text_in_a_batch_ensemble(tmp_path):
    if "share" not in inspect.signature(BatchEnsemble).parameters:
        with pytest.raises(InputError, match="owns the parameter 'weight'"):
            train(tmp_path, ensemble="batch", members=2)
        return
    run = train(tmp_path, ensemble="batch", members=2, augment="camixup", share=("*table*",))
    assert run.predictions("test").logits.shape == (2, 20, 3)


def test_text_with_a_named_module(tmp_path):
    run = train(tmp_path, network="plain_text", mix_after="0", augment="mixup")
    other = train(tmp_path, network="plain_text", mix_after="1", augment="mixup")
    assert weights(run) == weights(other)  # to flatten embeddings before they are mixed or after is the same
    assert weights(run) != weights(train(tmp_path, network="plain_text"))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"network": "plain_text", "augment": "mixup"}, "mixup cannot mix token ids: let network"),
        ({"network": "plain_text", "augment": "mixup", "mix_after": "9"}, "mix_after '9' is no module"),
        ({"augment": "augmix"}, "transform=augmix is for images"),
        ({"flip": True}, "flip=True is for images"),
        ({"augment": "cutmix"}, "cutmix cuts images"),
        ({"standardise": True}, "standardise=True is for numbers"),
    ],
)
def test_what_makes_no_sense_for_tokens(tmp_path, fields, message):
    with pytest.raises(InputError, match=message):
        train(tmp_path, **fields)


def test_shards_mix_within_themselves(tmp_path):
    run = train(tmp_path, augment="mixup", shards=2)
    assert run.trained
