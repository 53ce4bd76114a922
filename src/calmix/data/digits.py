"""The 1,797 handwritten digits that come with scikit-learn: 8 x 8 grey images, no download."""

import numpy as np
import torch

from calmix.data.dataset import DataSet, Part
from calmix.data.validation import split

TEST_SIZE = 597


def load_digits() -> DataSet:
    """1,200 images for training and 597 for testing: a fixed stratified split.

    The values 0 to 16 become round(value * 255 / 16).

    >>> digits = load_digits()
    >>> len(digits.train), len(digits.test), digits.train.shape
    (1200, 597, (1, 8, 8))
    """
    from sklearn.datasets import load_digits as load_bunch  # a slow import

    bunch = load_bunch()
    images = np.rint(bunch.images * (255 / 16)).astype(np.uint8)
    whole = Part(torch.from_numpy(images)[..., None], torch.from_numpy(bunch.target).long())
    train, test = split(whole.labels, TEST_SIZE)
    return DataSet("digits", tuple("0123456789"), whole.take(train), whole.take(test))
