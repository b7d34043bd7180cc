"""Calibrates what a language model says of multiple-choice questions, and of the next token.

The data are made, with a seed, and have what real ones have: a part of the mass is on tokens that are no option, the model
prefers the first option wherever the truth lies, some questions have three options instead of four, and the model is
too sure. Of the next token only the 8 best of 5,000 tokens are known.

    python examples/multiple_choice.py
"""

from __future__ import annotations

from typing import Any

import numpy as np
import ordercal


def questions(rows: int, seed: int) -> tuple[Any, Any]:
    """Log-probabilities of the options A to D, and which is right."""
    rng = np.random.default_rng(seed)
    honest = rng.normal(size=(rows, 4)) * 1.2
    honest[rng.uniform(size=rows) < 0.3, 3] = -np.inf
    chances = np.exp(honest) / np.exp(honest).sum(axis=1, keepdims=True)
    labels = (chances.cumsum(axis=1) > rng.random((rows, 1))).argmax(axis=1)
    said = 2.5 * honest + np.array([0.8, 0.0, 0.0, 0.0])
    said -= np.log(np.exp(said).sum(axis=1, keepdims=True))
    # Between 1 % and 60 % of the mass is on words such as "The".
    return said + np.log(rng.uniform(0.4, 0.99, (rows, 1))), labels


def tokens(rows: int, seed: int) -> tuple[ordercal.TopScores, Any]:
    """The 8 best of 5,000 tokens, and which came next."""
    rng = np.random.default_rng(seed)
    honest = rng.normal(size=(rows, 5000)).astype(np.float32) * 2.2
    chances = np.exp(honest)
    chances /= chances.sum(axis=1, keepdims=True)
    labels = np.minimum((chances.cumsum(axis=1) < rng.random((rows, 1))).sum(axis=1), 4999)
    return ordercal.TopScores.of_dense(1.5 * honest, 8), labels


def run() -> dict[str, dict[str, float]]:
    found = {}
    (calib, labels), (test, test_labels) = questions(3000, 1), questions(3000, 2)
    options = [ordercal.TopScores(np.tile(np.arange(4), (len(one), 1)), one) for one in (calib, test)]
    # One of the options is right, so the mass on other tokens is divided among them.
    # As logits, because there -inf masks an option that a question does not have; in log-probs it would be a probability of 0.
    calib, test = (one.renormalised().dense(4) for one in options)
    found["options as they are"] = ordercal.evaluate(test, test_labels)
    for key in ("ts", "auto", "vs"):
        calibrator = ordercal.calibrator(key).fit(calib, labels)
        probs = calibrator.predict_proba(test)
        found[f"options, {key}"] = ordercal.evaluate(probs, test_labels, kind="probs")
        if key == "vs":
            weight, bias, _ = calibrator.to_affine()
            print("for an engine: scale", weight.round(2), "bias", bias.round(2))

    (top, next_tokens), (test_top, test_tokens) = tokens(1500, 3), tokens(1500, 4)
    found["tokens as they are"] = test_top.evaluate(test_tokens)
    found["tokens, TopK"] = ordercal.TopK("auto").fit(top, next_tokens).apply(test_top).evaluate(test_tokens)
    return found


if __name__ == "__main__":
    print(f"{'':22}{'accuracy':>10}{'NLL':>10}{'ECE':>10}")
    for name, metrics in run().items():
        print(f"{name:22}{metrics['accuracy']:10.3f}{metrics['nll']:10.4f}{metrics['ece']:10.4f}")
