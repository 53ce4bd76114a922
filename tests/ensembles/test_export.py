import pytest
import torch
from torch import nn

from calmix.ensembles import BatchEnsemble, DeepEnsemble
from tests.ensembles.networks import ViT, images


def network():
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, 2), nn.BatchNorm2d(4), nn.PReLU(), nn.AvgPool2d(7), nn.Flatten(), nn.Linear(4, 3)
    )


MODELS = {
    "batch": lambda: BatchEnsemble(network(), 2),
    "batch, norms of members": lambda: BatchEnsemble(network(), 2, member_norm=True),
    "vit": lambda: BatchEnsemble(ViT(), 2, share=("cls_token", "pos_embed")),
    "deep": lambda: DeepEnsemble([network() for _ in range(2)]),
}


@pytest.mark.slow  # seconds each
@pytest.mark.parametrize("name", MODELS)
def test_export_with_a_dynamic_batch(name):
    torch.manual_seed(0)
    model = MODELS[name]().eval()
    with torch.no_grad():
        program = torch.export.export(
            model, (images(4),), dynamic_shapes={"x": {0: torch.export.Dim("batch")}}
        )
        for rows in (2, 31, 40):
            torch.testing.assert_close(
                program.module()(images(rows)), model(images(rows)), rtol=1e-4, atol=1e-5
            )


def test_a_large_layer_scales_in_an_exported_graph():
    """Whether to form weights depends on the number of rows, which is a symbol there."""
    model = BatchEnsemble(nn.Conv2d(3, 4, 3), 2).eval()
    x = torch.rand(40, 3, 40, 40)
    batch = torch.export.Dim("batch")
    program = torch.export.export(model, (x,), dynamic_shapes=({0: batch},))
    torch.testing.assert_close(program.module()(x[:3]), model(x[:3]), rtol=1e-4, atol=1e-5)
