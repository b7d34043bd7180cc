"""Calibrators as PyTorch modules. PyPI's torch brings gigabytes, so `cargo xtask torch` runs these; else they are skipped."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import ordercal
import pytest
from ordercal import _native

torch: Any
try:
    import torch
except ImportError:
    torch = None

pytestmark = pytest.mark.skipif(torch is None, reason="PyTorch is not installed: cargo xtask torch")

KEYS = _native.keys()
FREE = [key for key in KEYS if not _native.promises_order(key)]
EVERY = [*KEYS, *(f"{key}+order" for key in FREE if key != "auto-free")]
#: Small networks: the forms are the same.
QUICK: dict[str, dict[str, Any]] = {"oi": {"hidden": (8,)}, "op": {"hidden": (8,)}, "unconstrained": {"hidden": (8,)}}


def made(rows: int, classes: int, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(rows, classes)) * 2.0
    probs = np.exp(0.6 * logits)
    probs /= probs.sum(axis=1, keepdims=True)
    labels = (probs.cumsum(axis=1) < rng.uniform(size=(rows, 1))).sum(axis=1)
    return logits.astype(np.float32), np.minimum(labels, classes - 1)


def hostile(rows: int, classes: int, seed: int = 1) -> Any:
    """Ties, masks, tiny and huge differences, and scores far from those of the fit."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(rows, classes)) * 10.0 ** rng.integers(-3, 3, size=(rows, 1))
    scores[::5] = np.round(scores[::5])
    scores[1::7, 0] = -np.inf
    scores[2::11] = 0.25
    scores = scores.astype(np.float32)
    near = np.isfinite(scores[:, 0]) & (np.arange(rows) % 13 == 3)
    scores[near, 1] = np.nextafter(scores[near, 0], np.float32(np.inf))
    return scores


FITTED: dict[tuple[str, int], ordercal.Calibrator] = {}


def fitted(key: str, classes: int = 5) -> ordercal.Calibrator:
    if (key, classes) not in FITTED:
        logits, labels = made(400, classes)
        FITTED[key, classes] = ordercal.calibrator(key, **QUICK.get(key, {})).fit(logits, labels)
    return FITTED[key, classes]


def check(calibrator: ordercal.Calibrator, scores: Any) -> None:
    module = calibrator.to_torch()
    for dtype, tolerance in ((torch.float64, 1e-6), (torch.float32, 1e-5)):
        expected = calibrator.predict_proba(scores, dtype=np.float64 if dtype == torch.float64 else np.float32)
        found = module(torch.from_numpy(scores).to(dtype))
        assert found.dtype == dtype
        found = found.detach().numpy()
        np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)
        if calibrator.order_preserving_:
            assert np.array_equal(found.argmax(axis=1), scores.argmax(axis=1))
            # No two classes change places.
            order = np.argsort(-scores, axis=1, kind="stable")
            assert np.all(np.diff(np.take_along_axis(found, order, axis=1), axis=1) <= 0)
        else:
            # Where the two best are closer than rounding can tell, either may be first.
            first, second = np.sort(expected, axis=1)[:, ::-1][:, :2].T
            clear = first - second > (1e-12 if dtype == torch.float64 else 1e-7)
            assert np.array_equal(found.argmax(axis=1)[clear], expected.argmax(axis=1)[clear])


@pytest.mark.parametrize("key", EVERY)
def test_a_module_gives_what_the_library_gives(key: str) -> None:
    check(fitted(key), hostile(10_000, 5))
    check(fitted(key, 2), hostile(2_000, 2))


@pytest.mark.parametrize("key", ["auto", "oi", "isotonic", "sms+order"])
def test_probabilities_in_are_as_good(key: str) -> None:
    logits, labels = made(400, 4)
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    calibrator = ordercal.calibrator(key, kind="probs", **QUICK.get(key, {})).fit(probs, labels)
    fresh = np.exp(made(2000, 4, 3)[0].astype(np.float64))
    check(calibrator, (fresh / fresh.sum(axis=1, keepdims=True)).astype(np.float32))


@pytest.mark.parametrize("key", EVERY)
def test_gradients_to_the_scores_are_those_of_finite_differences(key: str) -> None:
    module = fitted(key).to_torch()
    scores = torch.from_numpy(made(20, 5, 4)[0]).double().requires_grad_()
    weights = torch.linspace(-1.0, 1.0, 5, dtype=torch.float64)
    loss = lambda x: (module(x) * weights).sum(dim=1)  # noqa: E731
    (found,) = torch.autograd.grad(loss(scores).sum(), scores)
    step = 1e-6
    wrong = 0
    with torch.no_grad():
        for place in range(5):
            change = torch.zeros(5, dtype=torch.float64)
            change[place] = step
            slope = (loss(scores + change) - loss(scores - change)) / (2 * step)
            wrong += int(((slope - found[:, place]).abs() > 1e-4 * (1 + slope.abs())).sum())
    # A step of a curve, a kink or a change of the pooling may lie within a difference.
    assert wrong <= 2, f"{wrong} of 100"


@pytest.mark.parametrize("key", EVERY)
def test_torch_export_takes_a_module(key: str) -> None:
    module = fitted(key).to_torch()
    rows = torch.export.Dim("rows", min=2)
    exported = torch.export.export(module, (torch.randn(7, 5),), dynamic_shapes=({0: rows},)).module()
    scores = torch.from_numpy(hostile(50, 5))
    torch.testing.assert_close(exported(scores), module(scores))


def test_gradients_are_finite_where_classes_are_masked() -> None:
    for key in EVERY:
        scores = torch.from_numpy(hostile(50, 5)).double().requires_grad_()
        found = fitted(key).to_torch()(scores)
        (gradient,) = torch.autograd.grad((found * torch.arange(5)).sum(), scores)
        assert torch.isfinite(gradient).all(), key


def test_outputs_types_and_errors() -> None:
    calibrator = fitted("oi")
    scores = torch.from_numpy(made(30, 5, 6)[0])
    probs = calibrator.to_torch()(scores)
    logits = calibrator.to_torch(output="logits")(scores)
    torch.testing.assert_close(torch.softmax(logits, 1), probs, rtol=0, atol=1e-6)
    logs = calibrator.to_torch(output="log-probs")(scores)
    torch.testing.assert_close(logs.exp(), probs, rtol=0, atol=1e-6)
    half = calibrator.to_torch()(scores.half())
    assert half.dtype == torch.float32 and (half - probs).abs().max() < 1e-2
    narrow = calibrator.to_torch().to(torch.float32)(scores)
    torch.testing.assert_close(narrow, probs, rtol=0, atol=1e-5)
    assert not list(calibrator.to_torch().parameters())
    with pytest.raises(ValueError, match="there is no output `odds`"):
        calibrator.to_torch(output="odds")


def test_tensors_of_half_precision_are_scores_and_probabilities() -> None:
    logits, labels = made(400, 5)
    probs = torch.softmax(torch.from_numpy(logits).double(), 1)
    for dtype, off in ((torch.float16, 2e-3), (torch.bfloat16, 2e-2)):
        narrow = probs.to(dtype)
        calibrator = ordercal.TemperatureScaling(kind="probs").fit(narrow, torch.from_numpy(labels))
        found = calibrator.predict_proba(narrow)
        module = calibrator.to_torch()(narrow)
        assert module.dtype == torch.float32 and np.abs(module.numpy() - found).max() < 1e-5
        exact = ordercal.TemperatureScaling(kind="probs").fit(probs, labels).predict_proba(probs)
        assert np.abs(found - exact).max() < off
        assert ordercal.evaluate(narrow, labels, kind="probs")["nll"] > 0


def test_a_mixture_of_every_kind_of_member() -> None:
    """What `auto` may be made of, whatever it is made of today."""
    from ordercal._torch import TorchCalibrator

    arrays: dict[str, Any] = {}

    def take(key: str, prefix: str) -> dict[str, Any]:
        model = fitted(key).model_
        arrays.update({prefix + name: array for name, array in model.tensors().items()})
        return json.loads(model.settings)

    keys = ["kernel", "kernel+order", "sms", "diag", "oi", "isotonic+order"]
    members = [take(key, f"{i}.") for i, key in enumerate(keys)]
    last = f"{len(keys)}."
    chain = {"form": "chain", "first": take("ts", last + "first."), "then": take("kernel", last + "then.")}
    weights = np.arange(1.0, len(keys) + 2)
    weights /= weights.sum()
    settings = {"form": "mixture", "weights": list(weights), "members": [*members, chain]}
    module = TorchCalibrator(settings, arrays, "logits", "probs", keep_order=False)

    scores = made(2000, 5, 9)[0]
    scores[::7, 1] = -np.inf
    scores[1::5] = np.round(scores[1::5])
    parts = [fitted(key).predict_proba(scores, dtype=np.float64) for key in keys]
    tempered = fitted("ts").predict_proba(scores, dtype=np.float64)
    with np.errstate(divide="ignore"):
        parts.append(fitted("kernel").predict_proba(np.log(tempered).astype(np.float32), dtype=np.float64))
    expected = sum(weight * part for weight, part in zip(weights, parts, strict=True))
    found = module(torch.from_numpy(scores).double()).numpy()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


def test_every_form_that_the_library_has_is_a_module() -> None:
    from ordercal._torch import FORMS

    for key in EVERY:
        assert fitted(key).parameters_["form"] in FORMS


@pytest.mark.parametrize("key", ["oi", "op"])
@pytest.mark.parametrize("top", [1, 4, 10])
def test_networks_that_read_the_top_scores(key: str, top: int) -> None:
    logits, labels = made(400, 12)
    calibrator = ordercal.calibrator(key, hidden=(8,), top=top).fit(logits, labels)
    scores = hostile(1000, 12)
    # So few classes that there is no rest.
    scores[3::11, 3:] = -np.inf
    check(calibrator, scores)
