"""Evidence of a finished run: what claims and tables need of it, small enough to be kept with the results.

A folder of evidence has the layout of a folder of runs without checkpoints, weights and predictions: for each
run `recipe.json`, `summary.json` with numbers to six digits (under corruption to four) and without empty
fields, and `evidence.npz`: per test image the label, and the predicted class and its probability (half
precision, of members to 1/1024) of the pool and of each member (of MC-dropout: the mean over samples); per
corrupted image its influence on cA and cECE; the share of epochs in which each class was mixed. Of a deep
ensemble also the scores of its subsets by size, those of the joint calibrator, and the sums by bin of pool
and members under corruption at severities 3 and 5.
"""

import dataclasses
import math
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from calmix import files
from calmix.errors import InputError
from calmix.records import to_plain, write_json
from calmix.runs.folder import create
from calmix.runs.influence import DRAWN_SEVERITIES, TopLabels
from calmix.runs.summary import TestScores

if TYPE_CHECKING:
    from calmix.study.results import Result

FILE = "evidence.npz"
EDITION = 2  # 1, without the number, had nothing of subsets, joint calibrators and severities
DIGITS, CORRUPTED_DIGITS = 6, 4  # a corrupted set has few images: noise hides the rest
STEPS = 1024  # of a member's probability
OPTIONAL = {field.name for field in dataclasses.fields(TestScores) if field.name not in ("examples", "pool")}
Arrays = dict[str, npt.NDArray[Any]]


def keep_evidence(result: "Result", folder: Path, extra: Arrays | None = None) -> Path:
    """Write the evidence of an evaluated run, and `extra` arrays, below `folder`; its folder there."""
    recipe = result.recipe
    if result.summary is None or result.top_labels is None:
        raise InputError(f"{result.run.folder} is not evaluated yet: run `calmix evaluate` on it first")
    arrays: Arrays = pack(result.top_labels, mean_of_members=recipe.ensemble == "mc")
    if result.summary.corrupted_scores():
        arrays |= {name: result.influence(name).astype(np.float16) for name in ("ca", "cece")}
    if result.mixed is not None:
        arrays["mixed"] = result.mixed.astype(np.float32)
    arrays["seconds"] = np.array(math.nan if result.seconds is None else result.seconds, dtype=np.float32)
    arrays["last_losses"] = np.array(result.last_losses, dtype=np.float32)
    if recipe.ensemble == "deep":
        arrays |= _of_deep_ensemble(result)
    arrays["edition"] = np.array(EDITION, dtype=np.uint8)
    arrays |= extra or {}
    target = create(recipe, folder, streams=False).folder
    write_arrays(target / FILE, arrays)
    write_json(target / "summary.json", _small(to_plain(result.summary)), indent=None)
    return target


def write_arrays(path: Path, arrays: Arrays) -> None:
    """An .npz file compressed by LZMA, a sixth smaller than NumPy's own for these arrays."""
    with (
        files.replacing(path) as file,
        zipfile.ZipFile(file, "w", zipfile.ZIP_LZMA) as archive,
    ):
        for name, array in arrays.items():
            info = zipfile.ZipInfo(f"{name}.npy")  # of a fixed date: the same arrays are the same file
            info.compress_type = zipfile.ZIP_LZMA
            with archive.open(info, "w") as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def _of_deep_ensemble(result: "Result") -> Arrays:
    numbers = {"subsets": result.subsets, "joint": result.joint}
    arrays: Arrays = {k: v.astype(np.float32) for k, v in numbers.items() if v is not None}
    for severity in DRAWN_SEVERITIES:
        if (binned := result.binned(severity)) is not None:
            arrays[f"severity_{severity}"] = binned.sums.astype(np.float32)
    return arrays


def is_current(folder: Path) -> bool:
    """Whether a run's evidence holds all that this edition keeps."""
    try:
        arrays = read_evidence(folder)
    except InputError:
        return False
    return arrays is not None and int(arrays.get("edition", np.array(1))) >= EDITION


def pack(top: TopLabels, *, mean_of_members: bool) -> Arrays:
    small = np.uint8 if top.prediction.max() < 256 else np.uint16
    arrays: Arrays = {"labels": top.labels.astype(small)}
    if mean_of_members:
        arrays |= {
            "prediction": top.prediction[:1].astype(small),
            "confidence": top.confidence[:1].astype(np.float16),
            "member_hit": top.hit[1:].mean(0).astype(np.float16),
            "member_confidence": top.confidence[1:].mean(0).astype(np.float16),
        }
        return arrays
    members = np.round(top.confidence[1:] * STEPS) / STEPS
    confidence = np.concatenate([top.confidence[:1], members]).astype(np.float16)
    # Members that see the same image are alike: next to each other they take less space.
    return arrays | {"prediction": top.prediction.astype(small), "confidence": np.asfortranarray(confidence)}


def unpack(arrays: Arrays) -> TopLabels:
    """Top labels of evidence; of MC-dropout one row for the mean of its samples."""
    labels, prediction = arrays["labels"].astype(np.int64), arrays["prediction"].astype(np.int64)
    confidence = arrays["confidence"].astype(np.float64, order="C")
    hit = np.asarray(prediction == labels, dtype=np.float64)
    if "member_hit" in arrays:
        prediction = np.concatenate([prediction, prediction])
        confidence = np.stack([confidence[0], arrays["member_confidence"].astype(np.float64)])
        hit = np.stack([hit[0], arrays["member_hit"].astype(np.float64)])
    return TopLabels(labels, prediction, confidence, hit)


def read_evidence(folder: Path) -> Arrays | None:
    """The arrays of a run's evidence, or None where it has none."""
    path = folder / FILE
    if not path.exists():
        return None
    arrays = files.read_npz(path)
    if problem := _problem(arrays):
        raise InputError(f"{path} is no evidence: {problem}")
    return arrays


def _problem(arrays: Arrays) -> str:
    """What makes the arrays unusable, or nothing."""
    for name in ("labels", "prediction", "confidence", "seconds", "last_losses"):
        if name not in arrays:
            return f"it lacks {name!r}"
    for name, array in arrays.items():
        if array.dtype.kind not in "uif":
            return f"{name!r} holds {array.dtype} instead of numbers"
    count = arrays["labels"].shape
    rows = {name: arrays[name] for name in ("prediction", "confidence")}
    for name in ("labels", "prediction"):
        if arrays[name].dtype.kind not in "ui" or (arrays[name].size and arrays[name].min() < 0):
            return f"{name!r} must be whole numbers from 0"
    for name, array in rows.items():
        if array.ndim != 2 or array.shape != rows["prediction"].shape or array.shape[1:] != count:
            return f"{name!r} has the shape {array.shape}, and 'labels' {count}"
    for name in ("member_hit", "member_confidence"):
        if ("member_hit" in arrays) != (name in arrays) or (name in arrays and arrays[name].shape != count):
            return f"{name!r} must be one number for each label"
    if not len(rows["prediction"]) or not count[0]:
        return "it has no predictions"
    if any(name in arrays and arrays[name].ndim != 1 for name in ("ca", "cece")) or arrays["seconds"].ndim:
        return "'ca', 'cece' or 'seconds' has a wrong shape"
    if arrays["last_losses"].ndim != 1 or ("mixed" in arrays and arrays["mixed"].ndim != 2):
        return "'last_losses' or 'mixed' has a wrong shape"
    shares = [array for name, array in arrays.items() if "confidence" in name or name == "member_hit"]
    if not all(np.isfinite(array).all() and (array >= 0).all() and (array <= 1).all() for array in shares):
        return "shares must lie in [0, 1]"
    return ""


def _small(value: Any, digits: int = DIGITS) -> Any:
    """JSON with rounded numbers, and without the optional fields that have nothing in them."""
    if isinstance(value, dict):
        return {
            key: _small(inner, CORRUPTED_DIGITS if key == "corrupted" else digits)
            for key, inner in value.items()
            if inner or key not in OPTIONAL
        }
    if isinstance(value, list):
        return [_small(inner, digits) for inner in value]
    if isinstance(value, float) and math.isfinite(value) and value:
        return float(f"{value:.{digits}g}")
    return value
