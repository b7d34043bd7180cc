"""Writes the model files of this folder with a given `ordercal` program: `python3 make.py PROGRAM`.

They were written by version 0.1.0 with format version 2 and are never written again: later versions must read them and
give the results in `*.expected.csv`.
"""

import pathlib
import random
import subprocess
import sys

program = sys.argv[1]
folder = pathlib.Path(__file__).parent
rng = random.Random(5)

METHODS = """uncalibrated ts ets vs ms-odir dir-odir svs sms platt beta isotonic histogram bbq diag oi op unconstrained
auto auto-free vs+order sms+order isotonic+order beta+order unconstrained+order""".split()


def run(*arguments):
    subprocess.run([program, "--quiet", *arguments], check=True, cwd=folder)


def logits(count, classes):
    """Overconfident logits, groups that differ, and labels."""
    lines = []
    for row in range(count):
        truth = [rng.gauss(0, 1.5) + 0.3 * (k % 3) for k in range(classes)]
        country = ["DE", "FR", "NL"][row % 3]
        top = max(truth)
        weights = [2.718281828 ** (t - top) for t in truth]
        label = rng.choices(range(classes), weights)[0]
        sharp = {"DE": 1.5, "FR": 2.5, "NL": 4.0}[country]
        lines.append((label, country, [sharp * t for t in truth]))
    return lines


def write(name, rows, columns):
    text = ",".join(columns) + "\n"
    for label, country, values in rows:
        text += ",".join([str(label), country, *(f"{v:.6g}" for v in values)]) + "\n"
    (folder / name).write_text(text)


def columns(prefix, names):
    return ["label", "country", *(prefix + name for name in names)]


def softmax(values):
    top = max(values)
    powers = [2.718281828459045 ** (v - top) for v in values]
    return [p / sum(powers) for p in powers]


def zeros(values):
    """Probabilities of which the smallest are exactly zero."""
    kept = [p if p > 0.02 else 0.0 for p in softmax(values)]
    return [p / sum(kept) for p in kept]


def fit(calib, rows, name, *options):
    run("fit", calib, "-o", f"{name}.safetensors", *options)
    run("apply", f"{name}.safetensors", rows, "--as", "probs", "--dtype", "f64", "-o", f"{name}.expected.csv")


calib, rows = logits(450, 4), logits(24, 4)
# Ties, a masked class, extremes.
rows[0] = (0, "DE", [1.0, 1.0, 0.5, 1.0])
rows[1] = (1, "FR", [500.0, -500.0, 0.0, 499.0])
rows[2] = (2, "NL", [0.0, 0.0, 0.0, 0.0])
rows[3] = (3, "DE", [1.0, float("-inf"), 2.0, 0.5])
names = ["0", "1", "2", "3"]
write("calib.csv", calib, columns("logit_", names))
write("rows.csv", rows, columns("logit_", names))
for method in METHODS:
    fit("calib.csv", "rows.csv", method, "--method", method)
fit("calib.csv", "rows.csv", "folds", "--method", "oi", "--folds", "3")
fit("calib.csv", "rows.csv", "grouped", "--method", "ts", "--by", "country")

probs = [(label, country, zeros(values)) for label, country, values in calib]
write("calib_zeros.csv", probs, columns("prob_", names))
probs = [(label, country, zeros([max(v, -400.0) for v in values])) for label, country, values in rows]
write("rows_zeros.csv", probs, columns("prob_", names))
for method in ["ts", "auto"]:
    fit("calib_zeros.csv", "rows_zeros.csv", f"zeros_{method}", "--method", method)

for kind, prefix in [("logit", "logit"), ("prob", "prob")]:
    def one(data):
        for label, country, values in data:
            score = values[1] - values[0]
            yield int(label in (1, 3)), country, [score if kind == "logit" else 1 / (1 + 2.718281828 ** -score)]

    write(f"calib_one_{kind}.csv", one(logits(300, 2)), columns(prefix, [""]))
    write(f"rows_one_{kind}.csv", one(logits(20, 2)), columns(prefix, [""]))
    for method in ["ts", "vs", "platt", "auto"]:
        fit(f"calib_one_{kind}.csv", f"rows_one_{kind}.csv", f"one_{kind}_{method}", "--method", method)

named = [(["cat", "dog", "ape", "cow"][label], country, values) for label, country, values in calib]
write("calib_names.csv", named, columns("logit_", ["cat", "dog", "ape", "cow"]))
write("rows_names.csv", rows, columns("logit_", ["cat", "dog", "ape", "cow"]))
fit("calib_names.csv", "rows_names.csv", "names_sms", "--method", "sms")
# A mixture with kernels, networks and projections, of the demo's images.
rows = logits(24, 10)
write("rows_demo.csv", rows, columns("logit_", [str(k) for k in range(10)]))
fit("../../../crates/ordercal-cli/demo/fashion_mnist.npz", "rows_demo.csv", "demo_auto")
for name in folder.glob("calib*.csv"):
    name.unlink()
