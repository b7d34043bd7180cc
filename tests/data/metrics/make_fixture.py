"""Writes packages.json: what public packages compute on small made-up predictions.

Run with any Python of at least 3.10:  python3 make_fixture.py
It makes a virtual environment in a temporary folder, installs the packages into it by name and runs
itself there. The tests of the metrics compare themselves with the file; they need neither Python nor a
network.
"""

import json
import os
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

PACKAGES = [
    "numpy",
    "scipy",
    "scikit-learn",
    "netcal",
    "torchmetrics",
    "uncertainty-calibration",
    "relplot",
]
HERE = Path(__file__).resolve().parent
INSIDE = "ORDERCAL_FIXTURE_ENVIRONMENT"


def run_in_environment():
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        python = str(Path(folder) / "bin" / "python")
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
        subprocess.run([python, __file__], check=True, env={**os.environ, INSIDE: "1"})


def main():
    import numpy as np

    rng = np.random.default_rng(20260)
    sets = {}
    for name, rows, classes, sharpness in [("three", 300, 3, 1.5), ("twelve", 400, 12, 2.5)]:
        logits = rng.normal(0, sharpness, (rows, classes))
        # Labels follow softer probabilities than the logits claim, so there is an error to measure.
        soft = softmax(0.6 * logits)
        labels = [int(rng.choice(classes, p=p)) for p in soft]
        logits = np.round(logits, 4).astype(np.float32)
        sets[name] = {
            "logits": [[float(str(v)) for v in row] for row in logits],
            "labels": labels,
            "weights": [int(w) for w in rng.integers(0, 5, rows)],
            "expected": expected(softmax(logits.astype(np.float64)), np.array(labels)),
        }
        weights = np.array(sets[name]["weights"])
        sets[name]["expected_weighted"] = expected_weighted(
            softmax(logits.astype(np.float64)), np.array(labels), weights
        )

    # Sixteenths: many ties, confidences exactly on the edges of 8 and 16 equal bins, some of exactly 1.
    sixteenths = rng.multinomial(16, [0.55, 0.2, 0.15, 0.1], 240)
    sixteenths[:8] = [16, 0, 0, 0]
    sixteenths = np.array([rng.permutation(row) for row in sixteenths])
    labels = np.array([int(rng.choice(4, p=(row / 16 + 0.25) / 2)) for row in sixteenths])
    sets["sixteenths"] = {
        "sixteenths": sixteenths.tolist(),
        "labels": labels.tolist(),
        "expected": expected_tied(sixteenths / 16, labels),
    }

    text = json.dumps(
        {"versions": {name: version(name) for name in PACKAGES}, "sets": sets},
        separators=(",", ":"),
    )
    # One row of numbers a line, so that a change can be read.
    text = text.replace("],[", "],\n[").replace('"expected', '\n"expected').replace("},", "},\n")
    (HERE / "packages.json").write_text(text + "\n")


def softmax(logits):
    import numpy as np

    e = np.exp(logits - logits.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def expected(probs, labels):
    import calibration
    import relplot
    import torch
    from netcal.metrics import ECE, MCE
    from scipy.stats import binomtest
    from sklearn.calibration import calibration_curve
    from sklearn.metrics import accuracy_score, log_loss, top_k_accuracy_score
    from torchmetrics.functional.classification import multiclass_calibration_error

    uc = calibration.utils
    classes = probs.shape[1]
    out = {
        "sklearn_accuracy": accuracy_score(labels, probs.argmax(axis=1)),
        "sklearn_top2": top_k_accuracy_score(labels, probs, k=2, labels=range(classes)),
        "sklearn_log_loss": log_loss(labels, probs, labels=range(classes)),
        "sklearn_brier_sum": brier(probs, labels),
        "relplot_smece": relplot.smECE(*relplot.multiclass_logits_to_confidences(probs, labels, probs=True)),
        "numpy_ks": ks(probs, labels),
        "numpy_kull_sum_15": kull(probs, labels, 15),
        "numpy_kull_sum_10": kull(probs, labels, 10),
    }
    if classes > 5:
        out["sklearn_top5"] = top_k_accuracy_score(labels, probs, k=5, labels=range(classes))
    for bins in [10, 15]:
        out[f"netcal_ece_{bins}"] = ECE(bins).measure(probs, labels)
        out[f"netcal_mce_{bins}"] = MCE(bins).measure(probs, labels)
        out[f"uc_ece_{bins}"] = uc.get_ece(probs, labels, num_bins=bins)
        out[f"uc_ece_em_{bins}"] = uc.get_ece_em(probs, labels, num_bins=bins)
        out[f"uc_top_{bins}"] = uc.lower_bound_scaling_top_ce(probs, labels, num_bins=bins)
        out[f"uc_marginal_{bins}"] = uc.lower_bound_scaling_ce(probs, labels, num_bins=bins)
        for power in [1, 2, 3]:
            plugin = lambda mode, scheme: uc.lower_bound_scaling_ce(
                probs, labels, p=power, debias=False, num_bins=bins, binning_scheme=scheme, mode=mode
            )
            out[f"uc_classwise_p{power}_{bins}"] = plugin("marginal", uc.get_equal_prob_bins)
            out[f"uc_width_p{power}_{bins}"] = plugin("top-label", uc.get_equal_prob_bins)
            out[f"uc_mass_p{power}_{bins}"] = plugin("top-label", uc.get_equal_bins)
        for norm in ["l1", "l2", "max"]:
            out[f"torchmetrics_{norm}_{bins}"] = multiclass_calibration_error(
                torch.tensor(probs, dtype=torch.float32), torch.tensor(labels), classes, n_bins=bins, norm=norm
            ).item()
    out["sklearn_calibration_curve"] = []
    for j in range(classes):
        truth, pred = calibration_curve(labels == j, probs[:, j], n_bins=15, strategy="uniform")
        out["sklearn_calibration_curve"].append([truth.tolist(), pred.tolist()])
    out["scipy_wilson"] = []
    for hits, rows in [(0, 1), (1, 1), (3, 7), (90, 100), (0, 50)]:
        interval = binomtest(hits, rows).proportion_ci(0.95, "wilson")
        out["scipy_wilson"].append([hits, rows, interval.low, interval.high])
    return out


def expected_weighted(probs, labels, weights):
    """Packages that take weights get them; the others get each row as often as its weight says."""
    import calibration
    import numpy as np
    import relplot
    from netcal.metrics import ECE, MCE
    from sklearn.metrics import accuracy_score, log_loss, top_k_accuracy_score

    uc = calibration.utils
    classes = probs.shape[1]
    repeated = np.repeat(np.arange(len(labels)), weights)
    p, y = probs[repeated], labels[repeated]
    return {
        "sklearn_accuracy": accuracy_score(labels, probs.argmax(axis=1), sample_weight=weights),
        "sklearn_top2": top_k_accuracy_score(
            labels, probs, k=2, labels=range(classes), sample_weight=weights
        ),
        "sklearn_log_loss": log_loss(labels, probs, labels=range(classes), sample_weight=weights),
        "sklearn_brier_sum": brier(probs, labels, weights),
        "relplot_smece": relplot.smECE(*relplot.multiclass_logits_to_confidences(p, y, probs=True)),
        "numpy_ks": ks(p, y),
        "numpy_kull_sum_15": kull(p, y, 15),
        "netcal_ece_15": ECE(15).measure(p, y),
        "netcal_mce_15": MCE(15).measure(p, y),
        "uc_ece_em_15": uc.get_ece_em(p, y),
        "uc_top_15": uc.lower_bound_scaling_top_ce(p, y),
        "uc_marginal_15": uc.lower_bound_scaling_ce(p, y),
        "uc_classwise_p1_15": uc.lower_bound_scaling_ce(
            p, y, p=1, debias=False, binning_scheme=uc.get_equal_prob_bins
        ),
    }


def expected_tied(probs, labels):
    """Where confidences are tied or on edges, only packages with our rule for them can be asked."""
    import calibration
    import relplot

    uc = calibration.utils
    out = {
        "relplot_smece": relplot.smECE(*relplot.multiclass_logits_to_confidences(probs, labels, probs=True)),
        "numpy_ks": ks(probs, labels),
        "sklearn_brier_sum": brier(probs, labels),
    }
    for bins in [8, 15, 16]:
        out[f"uc_ece_{bins}"] = uc.get_ece(probs, labels, num_bins=bins)
        out[f"uc_ece_em_{bins}"] = uc.get_ece_em(probs, labels, num_bins=bins)
        out[f"uc_top_{bins}"] = uc.lower_bound_scaling_top_ce(probs, labels, num_bins=bins)
        out[f"uc_marginal_{bins}"] = uc.lower_bound_scaling_ce(probs, labels, num_bins=bins)
        out[f"uc_classwise_p1_{bins}"] = uc.lower_bound_scaling_ce(
            probs, labels, p=1, debias=False, num_bins=bins, binning_scheme=uc.get_equal_prob_bins
        )
        out[f"numpy_kull_sum_{bins + 1}"] = kull(probs, labels, bins + 1)
    return out


def brier(probs, labels, weights=None):
    from sklearn.metrics import brier_score_loss

    return brier_score_loss(
        labels, probs, sample_weight=weights, labels=range(probs.shape[1]), scale_by_half=False
    )


def ks(probs, labels):
    import numpy as np

    conf = probs.max(axis=1)
    hit = probs.argmax(axis=1) == labels
    values = np.unique(conf)
    return max(abs((conf - hit)[conf <= c].sum()) for c in values) / len(labels)


def kull(probs, labels, bins):
    """The sum of the classes' errors between np.linspace's edges, as Kull et al. bin them."""
    import numpy as np

    total = 0.0
    for j in range(probs.shape[1]):
        where = np.digitize(probs[:, j], np.linspace(0, 1, bins))
        for b in np.unique(where):
            inside = where == b
            gap = probs[inside, j].mean() - (labels[inside] == j).mean()
            total += inside.mean() * abs(gap)
    return total


if __name__ == "__main__":
    if os.environ.get(INSIDE):
        main()
    else:
        run_in_environment()
