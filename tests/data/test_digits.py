import numpy as np
from sklearn.datasets import load_digits as reference

from calmix.data.digits import load_digits


def test_parts_together_are_the_images_of_scikit_learn():
    digits = load_digits()
    ours = np.concatenate([digits.train.inputs.numpy(), digits.test.inputs.numpy()])[..., 0]
    labels = np.concatenate([digits.train.labels.numpy(), digits.test.labels.numpy()])
    bunch = reference()
    values = np.array([0, 16, 32, 48, 64, 80, 96, 112, 128, 143, 159, 175, 191, 207, 223, 239, 255])
    expected = values[bunch.images.astype(int)]
    assert sorted(
        (image.tobytes(), label) for image, label in zip(ours.astype(int), labels, strict=True)
    ) == sorted((image.tobytes(), label) for image, label in zip(expected, bunch.target, strict=True))


def test_split_is_stratified():
    digits = load_digits()
    train, test = digits.train.labels.bincount(), digits.test.labels.bincount()
    assert (test / (train + test) - 597 / 1797).abs().max() < 0.01
