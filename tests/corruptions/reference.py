"""Independent reference of every corruption: one image at a time, in plain steps, with draws as an argument.

`draw` has the draws of one image: `normal(mean, scale, *shape)`, `uniform(low, high, *shape)`,
`integers(low, high, *shape)` and, for shot noise, `poisson(mean)`.
"""

import inspect
import io
import math

import cv2
import numpy as np
from PIL import Image
from scipy import ndimage

from calmix.corruptions.constants import constants
from calmix.corruptions.draws import Draws


def corrupted(images, name, severity, *, size=32, seed=0, extra=()):
    """A batch by the reference, with the draws of calmix."""
    function, values = globals()[name], parameters(name, severity, size)
    length = min(64, 65536 // (images.shape[1] * images.shape[2]))
    draws = [(OneOf(seed, name, severity, i, length),) for i in range(len(images))]
    if "draw" not in inspect.signature(function).parameters:
        draws = [()] * len(images)
    pairs = zip(images, draws, strict=True)
    return np.stack([function(image, *draw, *values, *extra) for image, draw in pairs])


def parameters(name, severity, size=32):
    return [int(v) if float(v).is_integer() else v for v in constants(name, severity, size=size)]


class Legacy:
    """Draws of NumPy's legacy generator, as in the benchmark."""

    def __init__(self, seed):
        self.state = np.random.RandomState(seed)

    def normal(self, mean, scale, *shape):
        return self.state.normal(mean, scale, shape)

    def uniform(self, low, high, *shape):
        return self.state.uniform(low, high, shape)

    def integers(self, low, high, *shape):
        return self.state.randint(low, high, shape)

    def poisson(self, mean):
        return self.state.poisson(mean)


class OneOf:
    """The draws of calmix for image `index` of the first block."""

    def __init__(self, seed, name, severity, index, length):
        self.draws = Draws(seed, name, severity, block=0, length=length, rows=slice(index, index + 1))

    def normal(self, *arguments):
        return self.draws.normal(*arguments)[0]

    def uniform(self, *arguments):
        return self.draws.uniform(*arguments)[0]

    def integers(self, *arguments):
        return self.draws.integers(*arguments)[0]


def eight_bits(values):
    """[0, 1] to 0..255, truncated."""
    return np.uint8(np.clip(values, 0, 1) * 255)


def blurred(plane, sigma):
    return ndimage.gaussian_filter(plane, sigma, mode="nearest", truncate=4.0)


def by_channel(function, image):
    return np.stack([function(image[..., c]) for c in range(image.shape[-1])], axis=-1)


def gaussian_noise(image, draw, scale):
    return eight_bits(image / 255.0 + draw.normal(0, scale, *image.shape))


def speckle_noise(image, draw, scale):
    x = image / 255.0
    return eight_bits(x + x * draw.normal(0, scale, *image.shape))


def shot_noise(image, draw, photons):
    return eight_bits(draw.poisson(image / 255.0 * photons) / photons)


def impulse_noise(image, draw, amount):
    hit = draw.uniform(0, 1, *image.shape) < amount
    salt = draw.uniform(0, 1, *image.shape) < 0.5
    return np.where(hit, np.where(salt, 255, 0), image).astype(np.uint8)


def gaussian_blur(image, sigma):
    return eight_bits(by_channel(lambda plane: blurred(plane, sigma), image / 255.0))


def disk(radius, softness):
    """In float32, whose sum just below 1 matters for the truncation of flat areas."""
    reach = 8 if radius <= 8 else int(radius)
    line = range(-reach, reach + 1)
    inside = np.float32([[x * x + y * y <= radius * radius for x in line] for y in line])
    half = 1 if radius <= 8 else 2
    taps = np.exp(-(np.arange(-half, half + 1) ** 2) / (2 * softness**2))
    kernel = inside / inside.sum()
    for axis in (0, 1):
        kernel = ndimage.correlate1d(kernel, np.float32(taps / taps.sum()), axis=axis, mode="mirror")
    return kernel.astype(np.float64)


def defocus_blur(image, radius, softness):
    kernel = disk(radius, softness)
    return eight_bits(
        by_channel(lambda plane: ndimage.correlate(plane, kernel, mode="mirror"), image / 255.0)
    )


def glass_blur(image, draw, sigma, reach, rounds):
    height, width, _ = image.shape
    out = gaussian_blur(image, sigma)
    for _ in range(rounds):
        offsets = draw.integers(-reach, reach, max(0, height - 2 * reach), max(0, width - 2 * reach), 2)
        for h in range(height - reach, reach, -1):
            for w in range(width - reach, reach, -1):
                dx, dy = offsets[h - reach - 1, w - reach - 1]
                out[h, w] = out[h + dy, w + dx]
    return gaussian_blur(out, sigma)


def streak(image, degrees, radius, sigma):
    height, width = image.shape[:2]
    count = 2 * math.ceil(radius) + 1
    weights = [math.exp(-(i * i) / (2 * sigma * sigma)) for i in range(count)]
    total = np.zeros(image.shape)
    for i, weight in enumerate(weights):
        right = math.ceil(i * math.cos(math.radians(degrees)) - 0.5)
        down = math.ceil(i * math.sin(math.radians(degrees)) - 0.5)
        rows = np.clip(np.arange(height) + down, 0, height - 1)
        columns = np.clip(np.arange(width) + right, 0, width - 1)
        total += weight / sum(weights) * image[rows][:, columns]
    sixteen_bits = np.floor(total * 257 + 0.5)
    return np.uint8(np.floor(sixteen_bits / 257))


def motion_blur(image, draw, radius, sigma):
    return streak(image, float(draw.uniform(-45, 45)), radius, sigma)


def zoomed(image, factor):
    """The middle of `image` (H, W, C), enlarged to its size."""
    height, width, _ = image.shape
    rows, columns = math.ceil(height / factor), math.ceil(width / factor)
    top, left = (height - rows) // 2, (width - columns) // 2
    large = ndimage.zoom(image[top : top + rows, left : left + columns], (factor, factor, 1), order=1)
    top, left = (large.shape[0] - height) // 2, (large.shape[1] - width) // 2
    return large[top : top + height, left : left + width]


def zoom_blur(image, stop, step):
    x = (image / 255.0).astype(np.float32)
    factors = np.arange(1, stop, step)
    total = np.zeros_like(x)
    for factor in factors:
        total += zoomed(x, factor)
    return eight_bits((x + total) / (len(factors) + 1))


def snow(image, draw, mean, scale, zoom, threshold, radius, sigma, keep):
    x = image.astype(np.float32) / 255
    layer = zoomed(draw.normal(mean, scale, *image.shape[:2])[..., None], zoom)[..., 0]
    layer[layer < threshold] = 0
    layer = streak(eight_bits(layer), float(draw.uniform(-135, -45)), radius, sigma)[..., None] / 255
    grey = 0.299 * x[..., 0] + 0.587 * x[..., 1] + 0.114 * x[..., 2]
    x = keep * x + (1 - keep) * np.maximum(x, 1.5 * grey[..., None] + 0.5)
    return eight_bits(x + layer + np.rot90(layer, 2))


def frost(image, draw, keep, add, scale, pictures):
    picture = pictures[int(draw.integers(0, 5))]
    if scale != 1:
        picture = cv2.resize(picture, (0, 0), fx=scale, fy=scale)
    height, width, _ = image.shape
    offset = draw.uniform(0, 1, 2)
    top = math.floor(offset[0] * (picture.shape[0] - height))
    left = math.floor(offset[1] * (picture.shape[1] - width))
    return np.uint8(np.clip(keep * image + add * picture[top : top + height, left : left + width], 0, 255))


def plasma(side, decay, wobble):
    """Diamond-square point by point on a torus; `wobble` (side, side) in [-1, 1]."""
    clouds = np.zeros((side, side))
    step, spread = side, 100.0

    def fill(y, x, neighbours):
        mean = sum(clouds[(y + dy) % side, (x + dx) % side] for dy, dx in neighbours) / 4
        clouds[y, x] = mean + spread**2 * wobble[y, x]

    while step >= 2:
        half = step // 2
        for y in range(half, side, step):
            for x in range(half, side, step):
                fill(y, x, [(-half, -half), (-half, half), (half, -half), (half, half)])
        for y in range(0, side, half):
            for x in range(half if y % step == 0 else 0, side, step):
                fill(y, x, [(-half, 0), (half, 0), (0, -half), (0, half)])
        step, spread = half, spread / decay
    clouds -= clouds.min()
    return clouds / clouds.max()


def fog(image, draw, amount, decay):
    height, width, _ = image.shape
    side = 1
    while side < max(height, width):
        side *= 2
    clouds = plasma(side, decay, draw.uniform(-1, 1, side, side))[:height, :width, None]
    x = image / 255.0
    peak = x.max()
    return eight_bits((x + amount * clouds) * peak / (peak + amount))


def to_hsv(r, g, b):
    value, spread = max(r, g, b), max(r, g, b) - min(r, g, b)
    if spread == 0:
        return 0.0, 0.0, value
    if b == value:
        hue = 4 + (r - g) / spread
    elif g == value:
        hue = 2 + (b - r) / spread
    else:
        hue = (g - b) / spread
    return (hue / 6) % 1.0, spread / value, value


def to_rgb(h, s, v):
    sector = math.floor(h * 6)
    part = h * 6 - sector
    p, q, t = v * (1 - s), v * (1 - part * s), v * (1 - (1 - part) * s)
    return [(v, t, p), (q, v, p), (p, v, t), (p, q, v), (t, p, v), (v, p, q)][sector]


def through_hsv(image, change):
    out = np.empty(image.shape)
    for at in np.ndindex(image.shape[:2]):
        out[at] = to_rgb(*change(*to_hsv(*(float(v) / 255 for v in image[at]))))
    return eight_bits(out)


def brightness(image, amount):
    return through_hsv(image, lambda h, s, v: (h, s, min(max(v + amount, 0), 1)))


def saturate(image, factor, amount):
    return through_hsv(image, lambda h, s, v: (h, min(max(s * factor + amount, 0), 1), v))


def contrast(image, factor):
    x = image / 255.0
    mean = x.mean(axis=(0, 1))
    return eight_bits((x - mean) * factor + mean)


def elastic_transform(image, draw, amplitude, sigma, jitter):
    height, width, _ = image.shape
    third = min(height, width) // 3
    x, y = width // 2, height // 2
    corners = np.float64([[x + third, y + third], [x + third, y - third], [x - third, y - third]])
    moved = corners + draw.uniform(-jitter, jitter, 3, 2)
    # The map from a pixel of the result to its source: moved -> corners.
    back = np.linalg.solve(np.column_stack([moved, np.ones(3)]), corners)
    rows, columns = np.mgrid[:height, :width]
    source = np.stack([columns, rows, np.ones_like(rows)], axis=-1) @ back
    x = (image / 255.0).astype(np.float32)
    at = [source[..., 1], source[..., 0]]
    x = by_channel(lambda plane: ndimage.map_coordinates(plane, at, order=1, mode="mirror"), x)
    if amplitude:
        noise = draw.uniform(-amplitude, amplitude, 2, height, width)
        dx, dy = (ndimage.gaussian_filter(p, sigma, mode="reflect", truncate=3.0) for p in noise)
        at = [rows + dy, columns + dx]
        x = by_channel(lambda plane: ndimage.map_coordinates(plane, at, order=1, mode="reflect"), x)
    return eight_bits(x)


def pixelate(image, factor):
    height, width, _ = image.shape
    small = Image.fromarray(image).resize((int(width * factor), int(height * factor)), Image.Resampling.BOX)
    return np.asarray(small.resize((width, height), Image.Resampling.BOX))


def jpeg_compression(image, quality):
    file = io.BytesIO()
    Image.fromarray(image).save(file, "JPEG", quality=quality)
    return np.asarray(Image.open(file))


def spatter(image, draw, mean, scale, sigma, threshold, amount, mud):
    x = image.astype(np.float32) / 255
    layer = blurred(draw.normal(mean, scale, *image.shape[:2]), sigma)
    layer[layer < threshold] = 0
    if mud:
        mask = blurred((layer > threshold).astype(np.float32), amount)
        mask[mask < 0.8] = 0
        mask = mask[..., None]
        return eight_bits(x * (1 - mask) + mask * np.array([63, 42, 20]) / 255)
    layer = np.uint8(np.minimum(layer, 1) * 255)
    distance = cv2.distanceTransform(255 - cv2.Canny(layer, 50, 150), cv2.DIST_L2, 5)
    distance[distance > 20] = 20
    distance = np.uint8(cv2.blur(distance, (3, 3)))
    distance = cv2.filter2D(
        cv2.equalizeHist(distance), cv2.CV_8U, np.array([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]])
    )
    light = layer * cv2.blur(distance, (3, 3)).astype(np.float32)
    if light.max() > 0:
        light *= amount / light.max()
    return eight_bits(x + light[..., None] * np.array([175, 238, 238]) / 255)
