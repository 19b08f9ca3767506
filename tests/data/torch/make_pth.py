#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes rwkv7.pth: what torch.save() writes for the state dict of a tiny RWKV-7 model, byte for byte, without torch.

    make_pth.py            writes rwkv7.pth beside this file
    make_pth.py FILE.pth   reads a file of torch (its tensors and metadata) and says whether the same bytes come out

The pickle is that of Python's own pickler, which torch uses, over classes of the same names; the archive has torch's
padding (64 bytes), flags and records. Element i of tensor t is ((7 i + 13 t) mod 61 - 30) / 32, exact in 16 bits.
"""
import collections
import io
import pathlib
import pickle
import struct
import sys
import types
import zipfile
import zlib


def module(name):
    sys.modules[name] = types.ModuleType(name)
    return sys.modules[name]


torch, utils = module("torch"), module("torch._utils")
SIZES = {"FloatStorage": 4, "HalfStorage": 2, "BFloat16Storage": 2, "LongStorage": 8, "DoubleStorage": 8}
for name in SIZES:
    kind = type(name, (), {"__module__": "torch"})
    setattr(torch, name, kind)


def _rebuild_tensor_v2(storage, offset, size, stride, grad, hooks):
    return Tensor(storage, offset, size, stride)


def _rebuild_parameter(data, grad, hooks):
    return Parameter(data)


for function in (_rebuild_tensor_v2, _rebuild_parameter):
    function.__module__ = "torch._utils"
    setattr(utils, function.__name__, function)


class Storage:
    def __init__(self, kind, data, device="cpu"):
        self.kind, self.data, self.device = kind, data, device


class Tensor:
    def __init__(self, storage, offset, size, stride):
        self.storage, self.offset, self.size, self.stride = storage, offset, size, stride

    def __reduce_ex__(self, protocol):
        hooks = collections.OrderedDict()
        return _rebuild_tensor_v2, (self.storage, self.offset, tuple(self.size), tuple(self.stride), False, hooks)


class Parameter:
    def __init__(self, data):
        self.data = data

    def __reduce_ex__(self, protocol):
        return _rebuild_parameter, (self.data, True, collections.OrderedDict())


HEAD = {".format_version": b"1", ".storage_alignment": b"64", "byteorder": b"little"}
TAIL = {"version": b"3\n", ".data/serialization_id": b"0" * 40}


def save(state, folder, head=HEAD, tail=TAIL, sort=False):
    """The bytes of torch.save(state, "FOLDER.pth"). Older versions have a shorter head and sort the storages."""
    keys, storages = {}, {}

    class Pickler(pickle.Pickler):
        def persistent_id(self, value):
            if not isinstance(value, Storage):
                return None
            key = keys.setdefault(id(value), str(len(keys)))
            storages[key] = value
            kind = getattr(torch, value.kind)
            return ("storage", kind, key, value.device, len(value.data) // SIZES[value.kind])

    pickled = io.BytesIO()
    Pickler(pickled, protocol=2).dump(state)
    numbers = [(f"data/{key}", storages[key].data) for key in (sorted(storages) if sort else storages)]
    records = [("data.pkl", pickled.getvalue()), *head.items(), *numbers, *tail.items()]
    out, directory = bytearray(), bytearray()
    for name, data in records:
        name = f"{folder}/{name}".encode()
        at = len(out)
        padding = -(at + 30 + len(name) + 4) % 64
        extra = b"FB" + struct.pack("<H", padding) + b"Z" * padding
        sums = struct.pack("<III", zlib.crc32(data), len(data), len(data))
        out += struct.pack("<IHHHHHIIIHH", 0x04034B50, 0, 0x808, 0, 0, 0, 0, 0, 0, len(name), len(extra))
        out += name + extra + data + b"PK\x07\x08" + sums
        directory += struct.pack("<IHHHHHH", 0x02014B50, 0, 0, 0x808, 0, 0, 0) + sums
        directory += struct.pack("<HHHHHII", len(name), 0, 0, 0, 0, 0, at) + name
    at, count = len(out), len(records)
    out += directory
    out += struct.pack("<IQHHIIQQQQ", 0x06064B50, 44, 0x31E, 0x2D, 0, 0, count, count, len(directory), at)
    out += struct.pack("<IIQI", 0x07064B50, 0, at + len(directory), 1)
    out += struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, count, count, len(directory), at, 0)
    return bytes(out)


def check(path):
    """Reads a file of torch and compares it with what save() makes of it."""
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        folder = names[0].split("/")[0]
        storages = {}

        class Unpickler(pickle.Unpickler):
            def persistent_load(self, parts):
                _, kind, key, device, _ = parts
                data = archive.read(f"{folder}/data/{key}")
                return storages.setdefault(key, Storage(kind.__name__, data, device))

        state = Unpickler(io.BytesIO(archive.read(f"{folder}/data.pkl"))).load()
        names = [name.split("/", 1)[1] for name in names]
        data = [name for name in names if name.startswith("data/")]
        first = names.index(data[0])
        others = {name: archive.read(f"{folder}/{name}") for name in names if name not in data}
    head = {name: others[name] for name in names[1:first]}
    tail = {name: others[name] for name in names[first:] if name in others}
    made = save(state, folder, head, tail, data == sorted(data))
    same = made == pathlib.Path(path).read_bytes()
    print(f"{path}: {'the same bytes' if same else 'other bytes'}")
    return same


def tiny():
    """Two layers, 16 channels in two heads, ranks 3, 4, 2, 5; every kind of entry that the reader knows."""
    d, head, f, rows, ranks = 16, 8, 20, 24, {"w": 3, "a": 4, "v": 2, "g": 5}
    shapes = {"emb.weight": (rows, d)}
    for i in range(2):
        b = f"blocks.{i}."
        for norm in (["ln0"] if i == 0 else []) + ["ln1", "ln2"]:
            shapes |= {b + norm + ".weight": (d,), b + norm + ".bias": (d,)}
        shapes |= {b + f"att.x_{j}": (1, 1, d) for j in "rwkvag"}
        for j, rank in ranks.items():
            if j != "g":
                shapes[b + f"att.{j}0"] = (1, 1, d)
            shapes |= {b + f"att.{j}1": (d, rank), b + f"att.{j}2": (rank, d)}
        shapes |= {b + "att.k_k": (1, 1, d), b + "att.k_a": (1, 1, d), b + "att.r_k": (d // head, head)}
        shapes |= {b + f"att.{m}.weight": (d, d) for m in ("receptance", "key", "value", "output")}
        shapes |= {b + "att.ln_x.weight": (d,), b + "att.ln_x.bias": (d,), b + "ffn.x_k": (1, 1, d)}
        shapes |= {b + "ffn.key.weight": (f, d), b + "ffn.value.weight": (d, f)}
    shapes |= {"ln_out.weight": (d,), "ln_out.bias": (d,), "head.weight": (rows, d)}

    state, shared = collections.OrderedDict(), None
    for t, (name, shape) in enumerate(shapes.items()):
        size = 1
        for n in shape:
            size *= n
        values = [((7 * i + 13 * t) % 61 - 30) / 32 for i in range(size)]
        stride = [1]
        for n in reversed(shape[1:]):
            stride.insert(0, stride[0] * n)
        kind, offset = "BFloat16Storage", 0
        if name == "emb.weight":
            kind = "FloatStorage"
        if name == "blocks.1.att.receptance.weight":
            kind = "HalfStorage"
        if name == "blocks.1.att.key.weight":  # lies in columns
            values = [values[(i % d) * d + i // d] for i in range(size)]
            stride = [1, d]
        data = b"".join(pack(kind, v) for v in values)
        if name == "ln_out.bias":  # the second half of the storage of ln_out.weight
            shared.data += data
            storage, offset = shared, size
        else:
            storage = Storage(kind, data)
        if name == "ln_out.weight":
            shared = storage
        tensor = Tensor(storage, offset, shape, stride)
        state[name] = Parameter(tensor) if name == "head.weight" else tensor
    state._metadata = collections.OrderedDict([("", {"version": 1}), ("blocks.0.ln0", {"version": 1})])
    return state


def pack(kind, value):
    if kind == "HalfStorage":
        return struct.pack("<e", value)
    full = struct.pack("<f", value)
    return full if kind == "FloatStorage" else full[2:]


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.exit(not all([check(path) for path in sys.argv[1:]]))
    here = pathlib.Path(__file__).parent
    (here / "rwkv7.pth").write_bytes(save(tiny(), "rwkv7"))
