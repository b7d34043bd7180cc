"""Writes fits.json: what SciPy and scikit-learn find on small made-up logits.

Run with any Python of at least 3.10:  python3 make.py
It makes a virtual environment in a temporary folder, installs the packages into it by name and runs
itself there. The tests of the methods compare themselves with the file; they need neither Python nor a
network. Every objective is written down here from its formula, in 64 bits, and minimised by SciPy's
L-BFGS-B to the last digit it can tell.
"""

import json
import os
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

PACKAGES = ["numpy", "scipy", "scikit-learn"]
HERE = Path(__file__).resolve().parent
INSIDE = "ORDERCAL_FIXTURE_ENVIRONMENT"


def run_in_environment():
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        python = Path(folder) / ("Scripts" if os.name == "nt" else "bin") / "python"
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
        subprocess.run([python, __file__], check=True, env={**os.environ, INSIDE: "1"})


def make():
    import numpy as np
    from scipy.optimize import minimize, minimize_scalar
    from scipy.special import log_softmax, logsumexp
    from sklearn.isotonic import IsotonicRegression
    from sklearn.linear_model import LogisticRegression

    def softplus(z):
        return np.logaddexp(0.0, z)

    def logits_and_labels(rng, rows, classes):
        """Overconfident logits in steps of 1/64, biased towards the first class; the last rows repeat
        the first ones with other labels, so that there are ties."""
        x = rng.normal(size=(rows, classes)) * 1.5
        x[np.arange(rows), rng.integers(classes, size=rows)] += 3.0 * rng.random(rows)
        x = np.round(x * 64) / 64
        truth = 0.7 * x + 0.4 * np.roll(x, 1, axis=1) - np.linspace(0.0, 1.0, classes)
        y = np.array([rng.choice(classes, p=np.exp(log_softmax(t))) for t in truth])
        x[-10:] = x[:10]
        return x, y

    def nll(logits, y, w):
        """Mean NLL and its gradient on the logits."""
        logp = log_softmax(logits, axis=1)
        share = w / w.sum()
        rows = np.arange(len(y))
        gradient = np.exp(logp)
        gradient[rows, y] -= 1.0
        return -(share * logp[rows, y]).sum(), gradient * share[:, None]

    def lbfgs(objective, start):
        options = dict(maxiter=50000, maxfun=500000, ftol=1e-16, gtol=1e-11, maxcor=50)
        return minimize(objective, start, jac=True, method="L-BFGS-B", options=options)

    def linear(u, y, w, vector, bias_weight, diagonal_weight, off_weight, start=1.0):
        """min NLL(uA + b) + penalties; the diagonal is penalised for being away from 1."""
        k = u.shape[1]
        eye = np.eye(k, dtype=bool)

        def objective(params):
            a, b = params[:-k], params[-k:]
            matrix = np.diag(a) if vector else a.reshape(k, k)
            value, g = nll(u @ matrix + b, y, w)
            ga, gb = u.T @ g, g.sum(axis=0)
            away = np.diag(matrix) - 1.0
            off = np.where(eye, 0.0, matrix)
            value += bias_weight * (b**2).sum() + diagonal_weight * (away**2).sum()
            value += off_weight * (off**2).sum()
            gb = gb + 2 * bias_weight * b
            ga = ga + 2 * off_weight * off + np.diag(2 * diagonal_weight * away)
            return value, np.concatenate([np.diag(ga) if vector else ga.ravel(), gb])

        first = np.full(k, start) if vector else (start * np.eye(k)).ravel()
        return lbfgs(objective, np.concatenate([first, np.zeros(k)])).fun

    def temperature(x, y, w):
        def value(log_beta):
            return nll(np.exp(log_beta) * x, y, w)[0]

        found = minimize_scalar(value, bounds=(-4, 4), method="bounded", options={"xatol": 1e-12})
        return np.exp(found.x)

    def structured(x, y, w, vector):
        n, k = w.sum(), x.shape[1]
        p = np.exp(log_softmax(temperature(x, y, w) * x, axis=1))
        z = np.log(p * n / (n + 1) + 1 / ((n + 1) * k))
        return linear(z, y, w, vector, k / n, k / n, k * (k - 1) / n)

    def ensemble(x, y, w):
        """The published two steps: the temperature first, then the weights (a convex problem)."""
        rows, k = np.arange(len(y)), x.shape[1]
        tempered = np.exp(log_softmax(temperature(x, y, w) * x, axis=1))[rows, y]
        plain = np.exp(log_softmax(x, axis=1))[rows, y]
        parts = np.stack([tempered, plain, np.full(len(y), 1 / k)], axis=1)
        shares = np.full(3, 1 / 3)
        for _ in range(100000):
            members = parts * shares
            members /= members.sum(axis=1, keepdims=True)
            shares = (w[:, None] * members).sum(axis=0) / w.sum()
        return -(w * np.log(parts @ shares)).sum() / w.sum()

    def log_odds(x, k):
        return x[:, k] - logsumexp(np.delete(x, k, axis=1), axis=1)

    def targets(hit, w, platt):
        if not platt:
            return hit.astype(float)
        hits, rest = w[hit].sum(), w[~hit].sum()
        return np.where(hit, (hits + 1) / (hits + 2), 1 / (rest + 2))

    def regression(features, target, w):
        """Logistic regression of soft targets: every row once as a hit and once as a miss."""
        model = LogisticRegression(
            C=np.inf, solver="newton-cholesky", tol=1e-14, max_iter=100000
        )
        twice = np.concatenate([features, features])
        labels = np.concatenate([np.ones(len(w)), np.zeros(len(w))])
        weights = np.concatenate([w * target, w * (1 - target)])
        used = weights > 0
        model.fit(twice[used], labels[used], sample_weight=weights[used])
        return [*model.coef_[0], model.intercept_[0]]

    def beta(odds, hit, w):
        features = np.stack([-softplus(-odds), softplus(odds), np.ones_like(odds)], axis=1)

        def objective(params):
            z = features @ params
            value = (w * (softplus(z) - hit * z)).sum() / w.sum()
            return value, features.T @ (w * (1 / (1 + np.exp(-z)) - hit)) / w.sum()

        options = dict(maxiter=50000, ftol=1e-16, gtol=1e-12)
        bounds = [(0, None), (0, None), (None, None)]
        found = minimize(objective, [1, 1, 0], jac=True, bounds=bounds, method="L-BFGS-B", options=options)
        return {"coefficients": list(found.x), "loss": found.fun}

    rng = np.random.default_rng(20240607)
    grid = [i / 20 for i in range(21)]
    cases = []
    for rows, classes, weighted in [(300, 4, False), (240, 3, True), (200, 2, False)]:
        x, y = logits_and_labels(rng, rows, classes)
        w = rng.integers(0, 4, size=rows).astype(float) if weighted else np.ones(rows)
        logp = log_softmax(x, axis=1)
        lam, mu = 0.5, 0.2
        odir = (mu / classes, 0.0, lam / (classes * (classes - 1)))
        maps = []
        for k in [1] if classes == 2 else range(classes):
            hit = y == k
            odds = log_odds(x, k)
            counted = w > 0
            isotonic = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip")
            isotonic.fit(np.exp(logp[counted, k]), hit[counted], sample_weight=w[counted])
            maps.append(
                {
                    "isotonic": list(isotonic.predict(grid)),
                    "platt": regression(odds[:, None], targets(hit, w, True), w),
                    "platt_labels": regression(odds[:, None], targets(hit, w, False), w),
                    "beta": beta(odds, hit, w),
                }
            )
        cases.append(
            {
                "classes": classes,
                "logits": [int(v) for v in (x * 64).ravel()],
                "labels": [int(v) for v in y],
                "weights": [int(v) for v in w],
                "lambda": lam,
                "mu": mu,
                "beta": temperature(x, y, w),
                "loss": {
                    "ets": ensemble(x, y, w),
                    "vs": linear(x, y, w, True, 0, 0, 0),
                    "ms-odir": linear(x, y, w, False, *odir),
                    "dir-odir": linear(logp, y, w, False, *odir),
                    "svs": structured(x, y, w, True),
                    "sms": structured(x, y, w, False),
                },
                "maps": maps,
            }
        )
    result = {
        "made_with": {name: version(name) for name in PACKAGES},
        "logits_are_divided_by": 64,
        "grid": grid,
        "cases": cases,
    }
    (HERE / "fits.json").write_text(json.dumps(result) + "\n")


if __name__ == "__main__":
    if os.environ.get(INSIDE):
        make()
    else:
        run_in_environment()
