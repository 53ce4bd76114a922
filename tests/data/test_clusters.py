import pytest
import torch

from calmix import InputError
from calmix.data import load, make_clusters


def test_mean_and_deviation_of_each_cluster():
    clusters = make_clusters(50_000)
    assert len(set(clusters.radii.tolist())) == 5
    for k in range(5):
        points = clusters.points[clusters.labels == k]
        assert torch.allclose(points.mean(0), clusters.centres[k], atol=5 * clusters.radii[k].item() / 100)
        assert torch.allclose(points.std(0), clusters.radii[k].expand(2), rtol=0.04)


def test_centres_are_on_a_circle():
    centres = make_clusters(5).centres
    assert torch.allclose(centres.norm(dim=1), torch.tensor(3.0))
    assert torch.allclose(centres.sum(0), torch.zeros(2), atol=1e-5)
    assert torch.allclose(centres[0], torch.tensor([0.0, 3.0]), atol=1e-6)
    assert torch.pdist(centres).min() > 3.5


def test_seeds_of_training_and_test_points_differ():
    assert torch.equal(make_clusters(10, seed=4).points, make_clusters(10, seed=4).points)
    clusters = load("clusters")
    assert not torch.isin(clusters.test.inputs, clusters.train.inputs).all(dim=1).any()
    assert clusters.train.inputs.dtype == torch.float32
    assert len(clusters.classes) == 5


@pytest.mark.parametrize("size", [0, 7])
def test_size_not_divisible_by_five_raises(size):
    with pytest.raises(InputError, match=f"positive multiple of the 5 clusters, got {size}"):
        make_clusters(size)
