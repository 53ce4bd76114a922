"""The benchmark's constants: five severities of each corruption, for each size of images.

Hendrycks and Dietterich, "Benchmarking neural network robustness to common corruptions and perturbations"
(2019), published a set for each size: CIFAR-C (32), Tiny-ImageNet-C (64), ImageNet-C (224) and ImageNet-C for
Inception (299). The values of a row are the parameters of the function of that name, in order.
"""

from calmix.errors import InputError, one_of

CORRUPTIONS = (
    *("gaussian_noise", "shot_noise", "impulse_noise"),
    *("defocus_blur", "glass_blur", "motion_blur", "zoom_blur"),
    *("snow", "frost", "fog", "brightness"),
    *("contrast", "elastic_transform", "pixelate", "jpeg_compression"),
)
EXTRA_CORRUPTIONS = ("speckle_noise", "gaussian_blur", "spatter", "saturate")
ALL_CORRUPTIONS = CORRUPTIONS + EXTRA_CORRUPTIONS
# The 17 types behind the paper's CIFAR-100-C numbers.
AUTHORS_CIFAR100 = tuple(name for name in ALL_CORRUPTIONS if name not in ("motion_blur", "snow"))
SEVERITIES = (1, 2, 3, 4, 5)

Row = tuple[float, ...]


def _single(*values: float) -> list[Row]:
    return [(value,) for value in values]


def _times(factor: float, *rows: Row) -> list[Row]:
    return [tuple(factor * value for value in row) for row in rows]


_CIFAR: dict[str, list[Row]] = {
    "gaussian_noise": _single(0.04, 0.06, 0.08, 0.09, 0.10),
    "shot_noise": _single(500, 250, 100, 75, 50),
    "impulse_noise": _single(0.01, 0.02, 0.03, 0.05, 0.07),
    "defocus_blur": [(0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1)],
    "glass_blur": [(0.05, 1, 1), (0.25, 1, 1), (0.4, 1, 1), (0.25, 1, 2), (0.4, 1, 2)],
    "motion_blur": [(6, 1), (6, 1.5), (6, 2), (8, 2), (9, 2.5)],
    "zoom_blur": [(1.06, 0.01), (1.11, 0.01), (1.16, 0.01), (1.21, 0.01), (1.26, 0.01)],
    "snow": [
        (0.1, 0.2, 1, 0.6, 8, 3, 0.95),
        (0.1, 0.2, 1, 0.5, 10, 4, 0.9),
        (0.15, 0.3, 1.75, 0.55, 10, 4, 0.9),
        (0.25, 0.3, 2.25, 0.6, 12, 6, 0.85),
        (0.3, 0.3, 1.25, 0.65, 14, 12, 0.8),
    ],
    "frost": [(1, 0.2, 0.2), (1, 0.3, 0.2), (0.9, 0.4, 0.2), (0.85, 0.4, 0.2), (0.75, 0.45, 0.2)],
    "fog": [(0.2, 3), (0.5, 3), (0.75, 2.5), (1, 2), (1.5, 1.75)],
    "brightness": _single(0.05, 0.1, 0.15, 0.2, 0.3),
    "contrast": _single(0.75, 0.5, 0.4, 0.3, 0.15),
    "elastic_transform": _times(
        32, (0, 0, 0.08), (0.05, 0.2, 0.07), (0.08, 0.06, 0.06), (0.1, 0.04, 0.05), (0.1, 0.03, 0.03)
    ),
    "pixelate": _single(0.95, 0.9, 0.85, 0.75, 0.65),
    "jpeg_compression": _single(80, 65, 58, 50, 40),
    "speckle_noise": _single(0.06, 0.1, 0.12, 0.16, 0.2),
    "gaussian_blur": _single(0.4, 0.6, 0.7, 0.8, 1),
    "spatter": [
        (0.62, 0.1, 0.7, 0.7, 0.5, 0),
        (0.65, 0.1, 0.8, 0.7, 0.5, 0),
        (0.65, 0.3, 1, 0.69, 0.5, 0),
        (0.65, 0.1, 0.7, 0.69, 0.6, 1),
        (0.65, 0.1, 0.5, 0.68, 0.6, 1),
    ],
    "saturate": [(0.3, 0), (0.1, 0), (1.5, 0), (2, 0.1), (2.5, 0.2)],
}

# 244 is a typo for 224 in the benchmark's own code, and part of its published results.
_IMAGENET_ELASTIC: list[Row] = [
    (2, 0.7, 0.1),
    (2, 0.08, 0.2),
    (0.05, 0.01, 0.02),
    (0.07, 0.01, 0.02),
    (0.12, 0.01, 0.02),
]

_IMAGENET: dict[str, list[Row]] = {
    "gaussian_noise": _single(0.08, 0.12, 0.18, 0.26, 0.38),
    "shot_noise": _single(60, 25, 12, 5, 3),
    "impulse_noise": _single(0.03, 0.06, 0.09, 0.17, 0.27),
    "defocus_blur": [(3, 0.1), (4, 0.5), (6, 0.5), (8, 0.5), (10, 0.5)],
    "glass_blur": [(0.7, 1, 2), (0.9, 2, 1), (1, 2, 3), (1.1, 3, 2), (1.5, 4, 2)],
    "motion_blur": [(10, 3), (15, 5), (15, 8), (15, 12), (20, 15)],
    "zoom_blur": [(1.11, 0.01), (1.16, 0.01), (1.21, 0.02), (1.26, 0.02), (1.31, 0.03)],
    "snow": [
        (0.1, 0.3, 3, 0.5, 10, 4, 0.8),
        (0.2, 0.3, 2, 0.5, 12, 4, 0.7),
        (0.55, 0.3, 4, 0.9, 12, 8, 0.7),
        (0.55, 0.3, 4.5, 0.85, 12, 8, 0.65),
        (0.55, 0.3, 2.5, 0.85, 12, 12, 0.55),
    ],
    "frost": [(1, 0.4, 1), (0.8, 0.6, 1), (0.7, 0.7, 1), (0.65, 0.7, 1), (0.6, 0.75, 1)],
    "fog": [(1.5, 2), (2, 2), (2.5, 1.7), (2.5, 1.5), (3, 1.4)],
    "brightness": _single(0.1, 0.2, 0.3, 0.4, 0.5),
    "contrast": _single(0.4, 0.3, 0.2, 0.1, 0.05),
    "elastic_transform": _times(244, *_IMAGENET_ELASTIC),
    "pixelate": _single(0.6, 0.5, 0.4, 0.3, 0.25),
    "jpeg_compression": _single(25, 18, 15, 10, 7),
    "speckle_noise": _single(0.15, 0.2, 0.35, 0.45, 0.6),
    "gaussian_blur": _single(1, 2, 3, 4, 6),
    "spatter": [
        (0.65, 0.3, 4, 0.69, 0.6, 0),
        (0.65, 0.3, 3, 0.68, 0.6, 0),
        (0.65, 0.3, 2, 0.68, 0.5, 0),
        (0.65, 0.3, 1, 0.65, 1.5, 1),
        (0.67, 0.4, 1, 0.65, 1.5, 1),
    ],
    "saturate": [(0.3, 0), (0.1, 0), (2, 0), (5, 0.1), (20, 0.2)],
}

_TINY = _IMAGENET | {
    "gaussian_noise": _single(0.04, 0.08, 0.12, 0.15, 0.18),
    "shot_noise": _single(250, 100, 50, 30, 15),
    "impulse_noise": _single(0.01, 0.02, 0.05, 0.08, 0.14),
    "defocus_blur": [(0.5, 0.6), (1, 0.1), (1.5, 0.1), (2.5, 0.01), (3, 0.1)],
    "glass_blur": [(0.1, 1, 1), (0.5, 1, 1), (0.6, 1, 2), (0.7, 2, 1), (0.9, 2, 2)],
    "motion_blur": [(10, 1), (10, 1.5), (10, 2), (10, 2.5), (12, 3)],
    "zoom_blur": _CIFAR["zoom_blur"],
    "snow": [(*row[:6], keep) for row, keep in zip(_CIFAR["snow"], (0.8, 0.8, 0.7, 0.65, 0.6), strict=True)],
    "frost": [(1, 0.3, 0.3), (0.9, 0.4, 0.3), (0.8, 0.45, 0.3), (0.75, 0.5, 0.3), (0.7, 0.55, 0.3)],
    "fog": [(0.4, 3), (0.7, 3), (1, 2.5), (1.5, 2), (2, 1.75)],
    "elastic_transform": _times(
        64, (0, 0, 0.08), (0.05, 0.3, 0.06), (0.1, 0.08, 0.06), (0.1, 0.03, 0.03), (0.16, 0.03, 0.02)
    ),
    "pixelate": _single(0.9, 0.8, 0.7, 0.6, 0.5),
    "jpeg_compression": _single(65, 58, 50, 40, 25),
    "speckle_noise": _single(0.15, 0.2, 0.25, 0.3, 0.35),
    "gaussian_blur": _single(0.5, 0.75, 1, 1.25, 1.5),
    "spatter": [
        (0.62, 0.1, 0.7, 0.7, 0.6, 0),
        (0.65, 0.1, 0.8, 0.7, 0.6, 0),
        (0.65, 0.3, 1, 0.69, 0.6, 0),
        (0.65, 0.1, 0.7, 0.68, 0.6, 1),
        (0.65, 0.1, 0.5, 0.67, 0.6, 1),
    ],
    "saturate": [*_IMAGENET["saturate"][:4], (30, 0.2)],
}

_INCEPTION = _IMAGENET | {
    "gaussian_noise": _single(0.09, 0.13, 0.19, 0.27, 0.40),
    "shot_noise": _single(50, 20, 10, 5, 3),
    "impulse_noise": _single(0.04, 0.07, 0.10, 0.18, 0.28),
    "defocus_blur": [(4, 0.1), (5, 0.5), (7, 0.5), (10, 0.5), (12, 0.5)],
    "glass_blur": [(0.8, 1, 3), (1, 3, 1), (1.1, 2, 4), (1.2, 4, 2), (1.6, 5, 2)],
    "motion_blur": [(12, 4), (17, 6), (17, 9), (17, 13), (22, 16)],
    "fog": [(1.5, 2), (2, 2), (2.5, 1.8), (2.5, 1.6), (3, 1.5)],
    "elastic_transform": _times(360, *_IMAGENET_ELASTIC),
    "pixelate": _single(0.5, 0.4, 0.3, 0.25, 0.2),
    "jpeg_compression": _single(23, 16, 13, 8, 5),
    "speckle_noise": _single(0.16, 0.21, 0.36, 0.46, 0.61),
    "gaussian_blur": _single(1.5, 2.5, 3.5, 4.5, 6.5),
    "spatter": [
        (0.65, 0.3, 4, 0.69, 0.9, 0),
        (0.65, 0.3, 3.5, 0.68, 0.9, 0),
        (0.65, 0.3, 3, 0.68, 0.8, 0),
        (0.65, 0.3, 1.2, 0.65, 1.8, 1),
        (0.67, 0.4, 1.2, 0.65, 1.8, 1),
    ],
}

_SETS = {32: _CIFAR, 64: _TINY, 224: _IMAGENET, 299: _INCEPTION}


def constants(name: str, severity: int, *, size: int) -> Row:
    """The parameters of a corruption; `size` is 32, 64, 224 or 299.

    >>> constants("glass_blur", 3, size=32)
    (0.4, 1, 1)
    """
    one_of("corruption", name, ALL_CORRUPTIONS)
    check_severity(severity)
    if size not in _SETS:
        raise InputError(f"size must be one of {', '.join(map(str, _SETS))}, got {size!r}")
    return _SETS[size][name][severity - 1]


def check_severity(severity: int) -> None:
    if severity not in SEVERITIES:
        raise InputError(f"severity must be one of {', '.join(map(str, SEVERITIES))}, got {severity!r}")


def nearest_size(height: int, width: int) -> int:
    """The size of the constants nearest to the shorter side; 299 is never chosen automatically.

    >>> nearest_size(28, 28), nearest_size(96, 120), nearest_size(512, 512)
    (32, 64, 224)
    """
    return min((32, 64, 224), key=lambda size: abs(size - min(height, width)))
