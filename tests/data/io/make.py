"""Writes the same small data sets in every format that ordercal-io reads.

Usage: python3 make.py [OUT_DIR]      (by default the folder of this script)

Makes a virtual environment under target/ with numpy, pandas, pyarrow, safetensors and ml_dtypes, runs itself
there, and writes the fixtures. The tests of ordercal-io compare what they read with `fine.txt` and `coarse.txt`: per row the
label, the weight and the bits of each score as a 32-bit float. `fine` has full 32-bit precision; `coarse`
is exact in float16 and bfloat16 as well.
"""

import collections
import csv
import decimal
import gzip
import io
import pathlib
import pickle
import struct
import subprocess
import sys
import venv
import warnings
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
ROWS, CLASSES = 23, 4
NAMES = ["ape", "bee", "cat", "dog"]


def bootstrap():
    """Runs this script in an environment that has the packages."""
    target = HERE.parents[2] / "target" / "io-fixtures"
    python = target / "bin" / "python"
    if not python.exists():
        venv.create(target, with_pip=True)
        packages = ["numpy", "pandas", "pyarrow", "safetensors", "ml_dtypes"]
        subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
    sys.exit(subprocess.run([python, __file__, "--inside", *sys.argv[1:]]).returncode)


def datasets(np):
    rng = np.random.default_rng(1357)
    fine = (rng.normal(size=(ROWS, CLASSES)) * 5).astype(np.float32)
    fine[3, 1] = -np.inf  # a masked class
    fine[5, 0] = fine[5, 2]  # a tie
    fine[6, 3] = np.float32(1e-40)  # a subnormal number
    coarse = (rng.integers(-127, 128, size=(ROWS, CLASSES)) / 16).astype(np.float32)
    labels = rng.integers(0, CLASSES, size=ROWS)
    labels[:CLASSES] = range(CLASSES)
    labels[3] = 3
    weights = rng.integers(1, 9, size=ROWS) / 4
    return fine, coarse, labels.astype(np.int64), weights


def expected(np, path, scores, labels, weights):
    with open(path, "w") as file:
        for row, label, weight in zip(scores, labels, weights):
            bits = " ".join(f"{bits:08x}" for bits in row.view(np.uint32))
            print(label, weight, bits, file=file)


def npy(np, out, fine, coarse, labels, weights):
    np.save(out / "fine_f4.npy", fine)
    np.save(out / "fine_f8.npy", fine.astype("<f8"))
    np.save(out / "fine_f4_fortran.npy", np.asfortranarray(fine))
    np.save(out / "fine_f4_big.npy", fine.astype(">f4"))
    np.save(out / "fine_f8_big_fortran.npy", np.asfortranarray(fine.astype(">f8")))
    np.save(out / "coarse_f2.npy", coarse.astype("<f2"))
    import ml_dtypes

    np.save(out / "coarse_bf16.npy", coarse.astype(ml_dtypes.bfloat16))
    with open(out / "fine_version2.npy", "wb") as file:
        np.lib.format.write_array(file, fine, version=(2, 0))
    for code in ["i1", "<i2", "<i4", "<i8", "u1", "<u2", "<u4", "<u8", ">i2", ">u8", "<f4", ">f8"]:
        name = code.replace("<", "").replace(">", "big_")
        np.save(out / f"labels_{name}.npy", labels.astype(code))
    np.save(out / "labels_column.npy", labels.reshape(-1, 1))
    np.save(out / "labels_onehot_bool.npy", np.eye(CLASSES, dtype=bool)[labels])
    np.save(out / "labels_onehot_f4.npy", np.eye(CLASSES, dtype="<f4")[labels])
    np.save(out / "labels_names.npy", np.array(NAMES)[labels])
    np.save(out / "labels_names_bytes.npy", np.array(NAMES)[labels].astype("S"))
    np.save(out / "labels_names_big.npy", np.array(NAMES)[labels].astype(">U5"))
    np.save(out / "object.npy", np.array([[1.0, "x"]], dtype=object))
    np.save(out / "complex.npy", np.zeros((2, 2), dtype="<c8"))
    np.save(out / "record.npy", np.zeros(2, dtype=[("a", "<f4"), ("b", "<i2")]))


def npz(np, out, fine, coarse, labels, weights):
    arrays = {"logits": fine, "labels": labels, "weights": weights}
    np.savez(out / "fine_stored.npz", **arrays)
    np.savez_compressed(out / "fine_deflated.npz", **arrays)
    fortran = dict(arrays, logits=np.asfortranarray(fine))
    np.savez(out / "fine_fortran_stored.npz", **fortran)
    np.savez_compressed(out / "fine_fortran_deflated.npz", **fortran)
    np.savez(
        out / "bundle.npz",
        calib_logits=fine, calib_labels=labels, calib_weights=weights,
        test_logits=coarse.astype("<f2"), test_labels=np.array(NAMES)[labels], test_weights=weights,
        class_names=np.array(NAMES), history=np.array([{"loss": 1}], dtype=object),
    )  # fmt: skip
    probs = np.exp(coarse.astype(np.float64))
    probs /= probs.sum(1, keepdims=True)
    np.savez(out / "probs.npz", probs=probs, log_probs=np.log(probs), labels=labels)


def tables(np, out, fine, coarse, labels, weights):
    import pyarrow as pa
    import pyarrow.feather as feather
    import pyarrow.parquet as pq

    header = ["label", *(f"logit_{k}" for k in range(CLASSES)), "weight"]
    text = lambda value: np.format_float_positional(value) if np.isfinite(value) else str(value)
    rows = [[l, *map(text, x), w] for l, x, w in zip(labels, fine, weights)]
    with open(out / "fine.csv", "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *rows])
    with open(out / "fine_quoted.csv", "w", newline="") as file:
        # A byte order mark, quotes, an unused column with commas and line breaks, another order, CRLF.
        file.write("\ufeff")
        writer = csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\r\n")
        writer.writerow(["weight", *reversed(header[1:-1]), "a note", "label"])
        writer.writerows([r[-1], *reversed(r[1:-1]), 'a "b",\nc', f" {r[0]}.0 "] for r in rows)
    with open(out / "fine_names.csv", "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["label", *(f"logit_{n}" for n in NAMES), "weight"])
        writer.writerows([NAMES[r[0]], *r[1:]] for r in rows)
    with open(out / "fine.csv.gz", "wb") as file:
        with gzip.GzipFile(fileobj=file, mode="wb", mtime=0, filename="") as packed:
            packed.write((out / "fine.csv").read_bytes())

    columns = {f"logit_{k}": pa.array(fine[:, k]) for k in range(CLASSES)}
    wide = pa.table({"label": labels, **columns, "weight": weights})
    pq.write_table(wide, out / "fine_snappy.parquet", compression="snappy", row_group_size=10)
    pq.write_table(wide, out / "fine_zstd.parquet", compression="zstd", data_page_version="2.0")
    pq.write_table(wide, out / "fine_gzip.parquet", compression="gzip", use_dictionary=False)
    pq.write_table(wide, out / "fine_lz4.parquet", compression="lz4")
    pq.write_table(wide, out / "fine_brotli.parquet", compression="brotli")
    exact = {f"logit_{k}": [decimal.Decimal(float(v)) for v in coarse[:, k]] for k in range(CLASSES)}
    exact = {name: pa.array(values, pa.decimal128(9, 4)) for name, values in exact.items()}
    pq.write_table(pa.table({"label": labels, **exact}), out / "coarse_decimal.parquet")
    lists = pa.array(list(fine), pa.list_(pa.float32()))
    fixed = pa.array(list(fine), pa.list_(pa.float32(), CLASSES))
    names = pa.array([NAMES[l] for l in labels])
    listed = pa.table({"logits": lists, "label": labels.astype("u1"), "weight": weights})
    pq.write_table(listed, out / "fine_list.parquet")
    large = pa.array([list(map(float, x)) for x in fine], pa.large_list(pa.float64()))
    dictionary = pa.table({"id": names, "logits": fixed, "labels": names.dictionary_encode(), "weights": weights})
    pq.write_table(dictionary, out / "fine_fixed_names.parquet")
    half = {f"logit_{k}": pa.array(coarse[:, k].astype("<f2")) for k in range(CLASSES)}
    pq.write_table(pa.table({"label": labels, **half, "weight": weights}), out / "coarse_f2.parquet")
    nulls = wide.set_column(2, "logit_1", pa.array([None, *map(float, fine[1:, 1])], pa.float32()))
    pq.write_table(nulls, out / "nulls.parquet")
    ragged = pa.array([list(map(float, x[: 3 if i == 7 else 4])) for i, x in enumerate(fine)])
    pq.write_table(pa.table({"logits": ragged, "label": labels}), out / "ragged.parquet")
    pq.write_table(pa.table({"label": labels, "logit_0": labels, "logit_1": labels}), out / "ints.parquet")

    with pa.OSFile(str(out / "fine.arrow"), "wb") as sink, pa.ipc.new_file(sink, wide.schema) as writer:
        writer.write_table(wide, max_chunksize=10)
    with pa.OSFile(str(out / "fine_stream.arrow"), "wb") as sink:
        with pa.ipc.new_stream(sink, dictionary.schema) as writer:
            writer.write_table(dictionary)
    feather.write_feather(wide, out / "fine_lz4.feather", compression="lz4")
    categories(np, out, fine, labels, weights)
    listed = pa.table({"logits": large, "label": names.cast(pa.large_string()), "weight": weights})
    feather.write_feather(listed, out / "fine_zstd.feather", compression="zstd")


def categories(np, out, fine, labels, weights):
    """Labels that are categories of pandas, declared in another order than that of their names or first rows."""
    import pandas as pd

    names = ["dog", "cat", "ape", "bee"]
    order = [NAMES.index(name) for name in names]
    label = pd.Categorical([NAMES[l] for l in labels], categories=names)
    frame = pd.DataFrame({"label": label, "logits": list(fine[:, order]), "weight": weights})
    frame.to_parquet(out / "categories.parquet", index=False)
    frame.to_feather(out / "categories.feather")


def tensors(np, out, fine, coarse, labels, weights):
    from safetensors.numpy import save_file

    save_file({"logits": fine, "labels": labels, "weights": weights}, out / "fine.safetensors")
    save_file(
        {"logits": fine.astype("<f8"), "labels": labels.astype("u1"), "weights": weights.astype("<f4")},
        out / "fine_f8.safetensors",
    )
    save_file(
        {"test_logits": coarse.astype("<f2"), "test_labels": labels.astype("<i4"), "test_weights": weights},
        out / "coarse_f2.safetensors",
        metadata={"class_names": '["ape", "bee", "cat", "dog"]'},
    )
    # numpy has no bfloat16, so this one is put together by hand: the upper halves of 32-bit floats.
    bits = (coarse.view("<u4") >> 16).astype("<u2").tobytes()
    label_bytes, weight_bytes = labels.astype("<i8").tobytes(), weights.tobytes()
    ends = [len(bits), len(bits) + len(label_bytes), len(bits) + len(label_bytes) + len(weight_bytes)]
    header = (
        f'{{"logits":{{"dtype":"BF16","shape":[{ROWS},{CLASSES}],"data_offsets":[0,{ends[0]}]}},'
        f'"labels":{{"dtype":"I64","shape":[{ROWS}],"data_offsets":[{ends[0]},{ends[1]}]}},'
        f'"weights":{{"dtype":"F64","shape":[{ROWS}],"data_offsets":[{ends[1]},{ends[2]}]}}}}'
    ).encode()
    data = struct.pack("<Q", len(header)) + header + bits + label_bytes + weight_bytes
    (out / "coarse_bf16.safetensors").write_bytes(data)


def old_names():
    """Makes Python's pickler call numpy's modules what they were called before version 2."""
    now = pickle.whichmodule
    pickle.whichmodule = lambda obj, name: now(obj, name).replace("numpy._core", "numpy.core")
    return now


def dump(path, value, protocol, old=False):
    now = old_names() if old else pickle.whichmodule
    with open(path, "wb") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pickle._Pickler(file, protocol).dump(value)
    pickle.whichmodule = now


def python2(np, path, fine, labels):
    """A pickle as Python 2 wrote it: protocol 2, bytes and text both as byte strings."""

    def string(raw):
        return b"U" + bytes([len(raw)]) + raw if len(raw) < 256 else b"T" + struct.pack("<i", len(raw)) + raw

    def array(value, code):
        shape = b"".join(b"K" + bytes([n]) for n in value.shape)
        shape = b"(" + shape + b"t"
        kind = b"cnumpy\ndtype\n" + string(code) + b"K\x00K\x01\x87R"
        kind += b"(K\x03" + string(b"<") + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
        start = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85" + string(b"b") + b"\x87R"
        return start + b"(K\x01" + shape + kind + b"\x89" + string(value.tobytes()) + b"tb"

    pair = array(fine, b"f4") + array(labels.reshape(-1, 1), b"i8") + b"\x86"
    path.write_bytes(b"\x80\x02" + pair + b"q\x00h\x00\x86.")


def python2_text(np, path, fine, labels):
    """A pickle as Python 2 wrote it with protocol 0: lines of text, bytes in quotes with escapes."""

    def string(raw):
        return b"S" + repr(raw)[1:].encode() + b"\n"

    def array(value, code):
        shape = b"(" + b"".join(b"I%d\n" % n for n in value.shape) + b"t"
        kind = b"cnumpy\ndtype\n(" + string(code) + b"I0\nI1\ntR"
        kind += b"(I3\n" + string(b"<") + b"NNNI-1\nI-1\nI0\ntb"
        start = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\nt" + string(b"b") + b"tR"
        return start + b"(I1\n" + shape + kind + b"I00\n" + string(value.tobytes()) + b"tb"

    pair = b"(" + array(fine, b"f4") + array(labels.reshape(-1, 1), b"i8") + b"t"
    path.write_bytes(b"(" + pair + b"p0\ng0\nt.")


class Storage:
    """Stands for a storage of PyTorch while a pickle is written."""

    def __init__(self, kind, key, count):
        self.kind, self.key, self.count = kind, key, count


def torch_global(module, name):
    """Something that the pickler writes as a name in a module of PyTorch, which need not be installed."""
    for part in ("torch", module):
        made = type(sys)(part)
        made.__path__ = []
        sys.modules.setdefault(part, made)
    if not hasattr(sys.modules[module], name):
        setattr(sys.modules[module], name, type(name, (), {"__module__": module}))
    return getattr(sys.modules[module], name)


def torch_save(path, value, arrays):
    """What torch.save writes: `value`, with each `Storage` in it as a file of its own."""

    class Pickler(pickle._Pickler):
        def persistent_id(self, item):
            if isinstance(item, Storage):
                return ("storage", torch_global("torch", item.kind), item.key, "cpu", item.count)

    file = io.BytesIO()
    Pickler(file, 2).dump(value)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        put = lambda name, data: archive.writestr(zipfile.ZipInfo(f"archive/{name}"), data)
        put("data.pkl", file.getvalue())
        put("byteorder", b"little")
        for key, raw in arrays.items():
            put(f"data/{key}", raw)
        put("version", b"3\n")


def torch_files(np, out, fine, coarse, labels, weights):
    rebuild = torch_global("torch._utils", "_rebuild_tensor_v2")

    class Tensor:
        def __init__(self, *arguments):
            self.arguments = arguments

        def __reduce__(self):
            return rebuild, (*self.arguments, False, collections.OrderedDict())

    # The scores are a transposed view that starts in the middle of their storage.
    moved = np.concatenate([np.zeros(3, "<f4"), np.ascontiguousarray(fine.T).ravel()])
    arrays = {"0": moved.tobytes(), "1": labels.tobytes(), "2": weights.tobytes()}
    value = {
        "logits": Tensor(Storage("FloatStorage", "0", len(moved)), 3, fine.shape, (1, ROWS)),
        "labels": Tensor(Storage("LongStorage", "1", ROWS), 0, (ROWS,), (1,)),
        "weights": Tensor(Storage("DoubleStorage", "2", ROWS), 0, (ROWS,), (1,)),
    }
    torch_save(out / "fine.pt", value, arrays)
    bits = (coarse.view("<u4") >> 16).astype("<u2")
    pair = (
        Tensor(Storage("BFloat16Storage", "0", bits.size), 0, coarse.shape, (CLASSES, 1)),
        Tensor(Storage("LongStorage", "1", ROWS), 0, (ROWS,), (1,)),
    )
    torch_save(out / "coarse_bf16.pt", pair, {"0": bits.tobytes(), "1": labels.tobytes()})
    torch_save(out / "forbidden.pt", (pair[0], subprocess.Popen), {"0": bits.tobytes()})


def pickles(np, out, fine, coarse, labels, weights):
    column = labels.reshape(-1, 1)
    published = ((fine, column), (coarse, column))
    for protocol in range(2, 6):
        dump(out / f"published_{protocol}.p", published, protocol)
        dump(out / f"published_{protocol}_old.p", published, protocol, old=True)
    python2(np, out / "published_python2.p", fine, labels)
    dump(out / "published_0.p", published, 0)
    python2_text(np, out / "published_0_python2.p", fine, labels)
    big = {"logits": np.asfortranarray(fine.astype(">f8")), "labels": list(map(int, labels)), "weights": weights}
    dump(out / "fine_dict.pkl", big, 4)
    dump(out / "fine_dict_fortran_5.pkl", big, 5)
    names = [NAMES[l] for l in labels]
    nested = collections.OrderedDict(
        calib={"logits": fine, "labels": np.array(names), "weights": weights},
        test=[coarse.astype("<f2"), [np.int16(l) for l in labels]],
    )
    dump(out / "nested.pickle", nested, 4)
    lists = ([[float(v) for v in row] for row in fine], names)
    dump(out / "fine_lists.pkl", lists, 3)
    dump(out / "object.pkl", {"logits": np.array([[1.0, None]], dtype=object), "labels": labels}, 4)
    dump(out / "forbidden.pkl", (fine, subprocess.Popen), 4)


def main():
    if sys.argv[1:2] != ["--inside"]:
        bootstrap()
    import numpy as np

    out = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else HERE
    fine, coarse, labels, weights = data = datasets(np)
    expected(np, out / "fine.txt", fine, labels, weights)
    expected(np, out / "coarse.txt", coarse, labels, weights)
    for write in (npy, npz, tables, tensors, pickles, torch_files):
        write(np, out, *data)
    files = [f for f in out.iterdir() if f.name != "make.py"]
    print(f"{len(files)} files, {sum(f.stat().st_size for f in files)} bytes")


if __name__ == "__main__":
    main()
