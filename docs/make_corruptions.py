"""Draw docs/corruptions.png: one CIFAR-10 test image under all 19 corruptions at all 5 severities.

python docs/make_corruptions.py FOLDER    (FOLDER holds cifar-10-batches-bin)
"""

import sys
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from calmix.corruptions import ALL_CORRUPTIONS, SEVERITIES, corrupt

INDEX = 29
TILE, GAP, TOP, LEFT = 96, 4, 40, 24


def main(folder: str) -> None:
    record = np.fromfile(Path(folder) / "cifar-10-batches-bin" / "test_batch.bin", np.uint8).reshape(
        -1, 3073
    )[INDEX]
    image = np.ascontiguousarray(record[1:].reshape(3, 32, 32).transpose(1, 2, 0))[None]
    columns = [("original", [image[0]])]
    for name in ALL_CORRUPTIONS:
        columns.append((name, [corrupt(image, name, severity, start=INDEX)[0] for severity in SEVERITIES]))

    step = TILE + GAP
    sheet = Image.new("RGB", (LEFT + step * len(columns), TOP + step * len(SEVERITIES)), "white")
    draw, font = ImageDraw.Draw(sheet), ImageFont.load_default(15)
    for column, (name, tiles) in enumerate(columns):
        x = LEFT + column * step
        title = name.replace("_", "\n")
        draw.multiline_text(
            (x + TILE / 2, TOP - 4), title, "black", font, anchor="md", align="center", spacing=1
        )
        for row, tile in enumerate(tiles):
            large = Image.fromarray(tile).resize((TILE, TILE), Image.Resampling.NEAREST)
            sheet.paste(large, (x, TOP + row * step))
    for row, severity in enumerate(SEVERITIES):
        draw.text((LEFT / 2, TOP + row * step + TILE / 2), str(severity), "black", font, anchor="mm")
    sheet.save(Path(__file__).with_name("corruptions.png"), optimize=True)


if __name__ == "__main__":
    main(sys.argv[1])
