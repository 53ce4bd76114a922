"""Mutations of files: of their structure where we know it, of their bytes anyway."""

import copy
import hashlib
import io
import json
import struct
import zipfile
from random import Random

import numpy as np
import torch

ODD = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 2**64, -(2**70), 10**400, 0.5, -0.0, 1e308, -1e308, 1e-320),
    *(float("nan"), float("inf"), "", "x", "\x1b[31m", "\ud800", "[/bold]", "../../etc/passwd", "a" * 10_000),
    *([], {}, [[]], [None], {"": None}, [1, [2, [3]]], {"version": 1}, list(range(50)), [[1], [1, 2]]),
)


def mutated_bytes(content: bytes, chosen: Random) -> bytes:
    """A few bytes flipped, cut, repeated, zeroed or inserted."""
    data = bytearray(content)
    for _ in range(chosen.choice((1, 1, 1, 2, 5, 20))):
        place = chosen.randrange(len(data) + 1) if data else 0
        kind = chosen.randrange(6)
        if kind == 0 and data:
            data[min(place, len(data) - 1)] ^= 1 << chosen.randrange(8)
        elif kind == 1:
            del data[place:]
        elif kind == 2:
            del data[place : place + chosen.randrange(1, 64)]
        elif kind == 3:
            data[place:place] = data[place : place + chosen.randrange(1, 64)]
        elif kind == 4:
            data[place : place + 8] = bytes(len(data[place : place + 8]))
        else:
            data[place:place] = chosen.choice((b"\xff" * 8, b"\0", b"[" * 200_000, b"\x80\x04", b"{", b"NaN"))
    return bytes(data)


def mutated_value(value, chosen: Random):
    """Parsed JSON, or a checkpoint's state, with a node or two replaced, dropped, doubled or nested."""
    value = copy.deepcopy(value)
    for _ in range(chosen.choice((1, 1, 1, 2, 4))):
        value = _mutated_once(value, chosen)
    return value


def _mutated_once(value, chosen: Random):
    node, path = value, []
    while isinstance(node, dict | list) and node and chosen.random() < 0.85:
        key = chosen.choice(list(node) if isinstance(node, dict) else range(len(node)))
        path.append((node, key))
        node = node[key]
    if not path:
        return _odd(chosen) if chosen.random() < 0.5 else [value]
    parent, key = path[-1]
    kind = chosen.randrange(7)
    if kind <= 2:
        parent[key] = _odd_tensor(node, chosen) if isinstance(node, torch.Tensor) else _odd(chosen)
    elif kind == 3:
        del parent[key]
    elif kind == 4 and isinstance(parent, dict):
        parent[chosen.choice(("extra", "", "member", 7, "\x00"))] = _odd(chosen)
    elif kind == 5 and isinstance(parent, list):
        parent.insert(0, _odd(chosen))
    else:
        parent[key] = [node] if chosen.random() < 0.5 else {"a": node}
    return value


def _odd(chosen: Random):
    return copy.deepcopy(chosen.choice(ODD))


def _odd_tensor(tensor, chosen: Random):
    options = (
        lambda: tensor.double() if tensor.is_floating_point() else tensor.float(),
        lambda: tensor.reshape(-1)[:1],
        lambda: torch.full_like(tensor.float(), float("nan")),
        lambda: torch.zeros(0),
        lambda: tensor.flatten(),
        lambda: torch.zeros(3, 5),
        lambda: _odd(chosen),
    )
    return chosen.choice(options)()


def mutated_json(content: bytes, chosen: Random) -> bytes:
    kind = chosen.random()
    if kind < 0.25:
        return mutated_bytes(content, chosen)
    if kind < 0.28:
        depth = chosen.choice((100, 5_000, 200_000))
        return b"[" * depth + (b"]" * depth if chosen.random() < 0.5 else b"")
    if kind < 0.31:
        return b'{"a":' * 50_000 + b"1" + b"}" * 50_000
    return dumped(mutated_value(json.loads(content), chosen))


def dumped(value) -> bytes:
    return json.dumps(value, skipkeys=True).encode("utf-8", "surrogatepass")


def mutated_lines(content: bytes, chosen: Random) -> bytes:
    """JSON lines."""
    lines = content.splitlines(keepends=True)
    kind = chosen.random()
    if kind < 0.2 or not lines:
        return mutated_bytes(content, chosen)
    place = chosen.randrange(len(lines))
    if kind < 0.3:
        del lines[place]
    elif kind < 0.4:
        lines.insert(place, lines[place])
    else:
        lines[place] = mutated_json(lines[place], chosen) + b"\n"
    return b"".join(lines)


def mutated_csv(content: bytes, chosen: Random) -> bytes:
    if chosen.random() < 0.3:
        return mutated_bytes(content, chosen)
    rows = [line.split(b",") for line in content.splitlines()]
    for _ in range(chosen.choice((1, 1, 3))):
        row = rows[chosen.choice((0, chosen.randrange(len(rows))))]
        odd = (
            b"",
            b"nan",
            b"inf",
            b"-inf",
            b"1e999",
            b'"',
            b"label",
            b"x",
            b"\xff",
            b"-1",
            b"1,2",
            b"\0",
            b"9" * 5000,
        )
        if row and chosen.random() < 0.8:
            row[chosen.randrange(len(row))] = chosen.choice(odd)
        elif row:
            del row[chosen.randrange(len(row))]
    return b"\n".join(b",".join(row) for row in rows)


def mutated_npy(content: bytes, chosen: Random) -> bytes:
    if chosen.random() < 0.4:
        return mutated_bytes(content, chosen)
    array = np.load(io.BytesIO(content))
    if chosen.random() < 0.5:
        return header_of(odd_shape(array.shape, chosen), chosen.choice(DTYPES)) + array.tobytes()
    return npy_bytes(odd_array(array, chosen))


DTYPES = (
    "|u1",
    "<f4",
    ">f8",
    "<i8",
    "|O",
    "|S5",
    "<U3",
    "<M8[s]",
    "<c16",
    "|b1",
    "<f2",
    "V8",
    "<m8",
    "?!",
    "",
)


def odd_shape(shape, chosen: Random) -> str:
    """The shape of a header, as text."""
    return chosen.choice(
        (
            *(str(shape), "()", "(0,)", "(-1,)", "(2.5,)", "('a',)", "(True,)", "None", "(None, 3)", "[3]"),
            *(str((200_000_000, *shape[1:])), str((2**62, 2**62)), "(" * 300 + ")" * 300, f"({'1,' * 70})"),
        )
    )


def header_of(shape: str, dtype: str) -> bytes:
    text = f"{{'descr': {dtype!r}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * (63 - (len(text) + 10) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def odd_array(array, chosen: Random):
    """The array with another type or shape, or odd values."""
    values = np.atleast_1d(array.astype(np.float64) if array.dtype.kind in "uifb" else array)
    options = (
        lambda: values.astype(">f4"),
        lambda: values[::-1],
        lambda: np.where(np.arange(values.size).reshape(values.shape) == 0, np.nan, values),
        lambda: np.where(np.arange(values.size).reshape(values.shape) == 0, np.inf, values),
        lambda: np.full_like(values, -np.inf),
        lambda: values.reshape(-1),
        lambda: values[:0],
        lambda: values[:1],
        lambda: values[None],
        lambda: values.T,
        lambda: values * 1e300,
        lambda: -values,
        lambda: values.astype("U8"),
        lambda: values.astype(np.complex64),
        lambda: values.astype(np.uint8),
        lambda: values.astype("M8[s]"),
        lambda: values > 0,
        lambda: np.float64(3.0),
        lambda: values.astype(object),
        lambda: values.astype(np.float16),
        lambda: np.zeros(values.shape, dtype=[("a", "f4"), ("b", "i4")]),
    )
    with np.errstate(all="ignore"):
        return np.asarray(chosen.choice(options)())


def npy_bytes(array) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


def mutated_npz(content: bytes, chosen: Random) -> bytes:
    """An archive with odd members, compressions, headers or names."""
    if chosen.random() < 0.25:
        return mutated_bytes(content, chosen)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = chosen.choice(list(members))
    kind = chosen.random()
    if kind < 0.6:
        members[name] = mutated_npy(members[name], chosen)
    elif kind < 0.7:
        del members[name]
    elif kind < 0.8:
        members[chosen.choice(("logits.npy", "probs.npy", "ids.npy", "groups.npy", "../x.npy", "x"))] = (
            members[name]
        )
    elif kind < 0.9:
        shape = odd_shape((3, 4), chosen)
        members[name] = header_of(shape, chosen.choice(DTYPES)) + bytes(chosen.choice((0, 8, 1_000_000)))
    method = chosen.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2))
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for each, data in members.items():
            archive.writestr(each, data)
    result = file.getvalue()
    return mutated_bytes(result, chosen) if kind > 0.95 else result


def mutated_safetensors(content: bytes, chosen: Random) -> bytes:
    if chosen.random() < 0.4:
        return mutated_bytes(content, chosen)
    length = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8 : 8 + length])
    if chosen.random() < 0.4 and "__metadata__" in header:
        task = json.loads(header["__metadata__"]["task"])
        header["__metadata__"]["task"] = dumped(mutated_value(task, chosen)).decode("utf-8", "replace")
    else:
        header = mutated_value(header, chosen)
    text = dumped(header)
    size = len(text) if chosen.random() < 0.9 else chosen.choice((0, 2**63, 2**40))
    return struct.pack("<Q", size) + text + content[8 + length :]


def mutated_checkpoint(content: bytes, chosen: Random) -> bytes:
    """A checkpoint with a good digest over bad content, or without one."""
    kind = chosen.random()
    if kind < 0.2:
        return mutated_bytes(content, chosen)
    if kind < 0.5:
        changed = mutated_bytes(content[:-32], chosen)
    else:
        state = torch.load(io.BytesIO(content), weights_only=True)
        file = io.BytesIO()
        torch.save(mutated_value(state, chosen), file)
        changed = file.getvalue()
    return changed + hashlib.sha256(changed).digest()
