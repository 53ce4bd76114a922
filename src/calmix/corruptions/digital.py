"""Digital: contrast, elastic transform, pixelate, JPEG."""

import functools

import cv2
import numpy as np
import numpy.typing as npt
from PIL import Image
from scipy import ndimage

from calmix.corruptions.draws import Draws
from calmix.corruptions.pixels import Images, truncate, truncate_single


def contrast(images: Images, factor: float) -> Images:
    """(x - mean) factor + mean, with the mean of each channel of each image."""
    count = images.shape[1] * images.shape[2]
    means = images.sum(axis=(1, 2), keepdims=True, dtype=np.int64) / (255 * count)
    return truncate(((images / 255 - means) * factor + means) * 255)


def elastic_transform(images: Images, draws: Draws, amplitude: float, sigma: float, jitter: float) -> Images:
    """A random affine map, then a displacement by a smooth random field."""
    _, height, width, _ = images.shape
    maps = _affine_maps(draws.uniform(-jitter, jitter, 3, 2), height, width)
    pairs = zip(images.astype(np.float32), maps, strict=True)
    size, border = (width, height), cv2.BORDER_REFLECT_101
    warped = np.stack([cv2.warpAffine(image, matrix, size, borderMode=border) for image, matrix in pairs])
    if amplitude:
        noise = draws.uniform(-amplitude, amplitude, 2, height, width)
        shift = _smoothing(height, sigma) @ noise @ _smoothing(width, sigma).T
        to_x = shift[:, 0] + np.arange(width, dtype=np.float32)
        to_y = shift[:, 1] + np.arange(height, dtype=np.float32)[:, None]
        moved, linear, border = zip(warped, to_x, to_y, strict=True), cv2.INTER_LINEAR, cv2.BORDER_REFLECT
        warped = np.stack([cv2.remap(image, x, y, linear, borderMode=border) for image, x, y in moved])
    return truncate_single(warped.reshape(images.shape))


def _affine_maps(shifts: npt.NDArray[np.float32], height: int, width: int) -> npt.NDArray[np.float64]:
    """(N, 2, 3): the maps that move three corners of a square in the middle by `shifts` (N, 3, 2)."""
    centre = np.array([width // 2, height // 2])
    third = min(height, width) // 3
    corners = centre + third * np.array([[1, 1], [1, -1], [-1, -1]])
    inverse = np.linalg.inv(np.column_stack([corners, np.ones(3)]))
    return np.swapaxes(inverse @ (corners + shifts), 1, 2)


@functools.lru_cache(maxsize=8)
def _smoothing(length: int, sigma: float) -> npt.NDArray[np.float32]:
    """A Gaussian over a line as a matrix; edges mirrored, truncated at three sigma."""
    line = ndimage.gaussian_filter1d(np.eye(length), sigma, axis=0, mode="reflect", truncate=3)
    return line.astype(np.float32)  # type: ignore[no-any-return]


def pixelate(images: Images, factor: float) -> Images:
    """Downscale by `factor` with a box filter, and upscale again."""
    _, height, width, channels = images.shape
    small = (int(width * factor), int(height * factor))
    out = np.empty_like(images)
    for image, back in zip(images, out, strict=True):
        picture = Image.fromarray(image if channels == 3 else image[..., 0])
        picture = picture.resize(small, Image.Resampling.BOX).resize((width, height), Image.Resampling.BOX)
        back[:] = np.asarray(picture).reshape(back.shape)
    return out


def jpeg_compression(images: Images, quality: float) -> Images:
    """Encode as JPEG and decode, with 4:2:0 chroma subsampling."""
    flags = [cv2.IMWRITE_JPEG_QUALITY, int(quality)]
    out = np.empty_like(images)
    for image, back in zip(images[..., ::-1], out[..., ::-1], strict=True):
        data = cv2.imencode(".jpg", image, flags)[1]
        back[:] = np.asarray(cv2.imdecode(data, cv2.IMREAD_UNCHANGED)).reshape(back.shape)
    return out
