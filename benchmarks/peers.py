"""The peers' side of `cargo measure bench --peers`.

Requests and answers are those of serve.py. What a library would do once per data set (loading, sorting, converting) is
done before the clock starts, nothing is logged or measured between steps, and every core is used.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from serve import Work, arrays, mean_nll, serve


@cache
def tensors(folder: str) -> tuple[torch.Tensor, torch.Tensor]:
    """The logits and labels of a folder."""
    logits, labels = arrays(folder)
    return torch.from_numpy(logits), torch.from_numpy(labels)


@cache
def probabilities(folder: str) -> np.ndarray:
    """The softmax of the logits, float32."""
    return torch.softmax(tensors(folder)[0], dim=1).numpy()


def log_probabilities(folder: str) -> np.ndarray:
    """What scikit-learn and probmetrics take for logits: any shift of a row is the same to them."""
    return torch.log_softmax(tensors(folder)[0], dim=1).numpy()


def torch_ts(folder: str) -> Work:
    """Temperature scaling by L-BFGS with a line search, as in every tutorial, but told to converge."""
    logits, labels = tensors(folder)

    def run() -> torch.Tensor:
        log_beta = torch.zeros(1, requires_grad=True)
        optimizer = torch.optim.LBFGS([log_beta], max_iter=50, line_search_fn="strong_wolfe")

        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = F.cross_entropy(logits * log_beta.exp(), labels)
            loss.backward()
            return loss

        optimizer.step(closure)
        return log_beta.detach()

    def nll(log_beta: object) -> float:
        return float(F.cross_entropy(logits * torch.as_tensor(log_beta).exp(), labels))

    return run, nll


class Network(torch.nn.Module):
    """Hidden layers with ReLU, then one output per position."""

    def __init__(self, classes: int, hidden: list[int]) -> None:
        super().__init__()
        widths = [classes, *hidden]
        layers: list[torch.nn.Module] = []
        for inputs, outputs in zip(widths, widths[1:]):
            layers += [torch.nn.Linear(inputs, outputs), torch.nn.ReLU()]
        self.layers = torch.nn.Sequential(*layers, torch.nn.Linear(widths[-1], classes))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Multipliers of the gaps."""
        return F.softplus(self.layers(inputs))


class Sorted:
    """Rows in sorted space: nothing is sorted or scattered while a network trains."""

    def __init__(self, folder: str, sorted_input: bool) -> None:
        logits, labels = tensors(folder)
        scores, order = torch.log_softmax(logits, dim=1).sort(dim=1, descending=True)
        self.gaps = scores[:, :-1] - scores[:, 1:]
        self.ranks = (order == labels[:, None]).int().argmax(dim=1)
        self.inputs = scores if sorted_input else torch.log_softmax(logits, dim=1)

    def loss(self, network: Network, part: torch.Tensor | slice) -> torch.Tensor:
        """The NLL of some rows."""
        steps = self.gaps[part] * network(self.inputs[part])[:, :-1]
        # What each position lies below the first one; the softmax ignores a common shift.
        below = F.pad(steps.cumsum(dim=1), (1, 0))
        return F.cross_entropy(-below, self.ranks[part])


def order_preserving(
    folder: str, hidden: list[int], epochs: int, sorted_input: bool, held_out: bool = False
) -> Work:
    """oi or op by Adam; its result is the NLL of the rows themselves or of held-out ones."""
    data = Sorted(folder, sorted_input)
    judged = Sorted(str(Path(folder) / "held_out"), sorted_input) if held_out else data
    rows, classes = len(data.ranks), data.inputs.shape[1]

    def run() -> Network:
        torch.manual_seed(0)
        network = Network(classes, hidden)
        optimizer = torch.optim.Adam(network.parameters(), lr=1e-3, weight_decay=5e-4)
        for _ in range(epochs):
            for part in torch.randperm(rows).split(256):
                optimizer.zero_grad()
                data.loss(network, part).backward()
                optimizer.step()
        return network

    def nll(network: object) -> float:
        assert isinstance(network, Network)
        with torch.no_grad():
            return float(judged.loss(network, slice(None)))

    return run, nll


def clenshaw_curtis(points: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Nodes and weights of the quadrature on [−1, 1]."""
    n = points - 1
    angles = np.pi * np.arange(points) / n
    j = np.arange(1, n // 2 + 1)
    halves = np.where(2 * j == n, 1.0, 2.0)
    series = (halves / (4 * j**2 - 1) * np.cos(2 * j * angles[:, None])).sum(axis=1)
    ends = np.where((np.arange(points) == 0) | (np.arange(points) == n), 1.0, 2.0)
    return torch.tensor(np.cos(angles)).float(), torch.tensor(ends / n * (1 - series)).float()


def diag_pass(folder: str) -> Work:
    """diag as the paper computes it: the network's integral, by 31 points, for every single score."""
    logits, labels = tensors(folder)
    scores = torch.log_softmax(logits, dim=1).reshape(-1, 1)
    nodes, weights = clenshaw_curtis(31)
    torch.manual_seed(0)
    network = Network(1, [10, 10])

    def run() -> torch.Tensor:
        network.zero_grad()
        points = (scores * (nodes + 1) / 2).reshape(-1, 1)
        integrals = (network(points).reshape(len(scores), -1) * weights).sum(dim=1, keepdim=True) * scores / 2
        loss = F.cross_entropy(integrals.reshape(logits.shape), labels)
        loss.backward()
        return loss.detach()

    return run, lambda loss: float(torch.as_tensor(loss))


def probmetrics_fit(folder: str, name: str) -> Work:
    """A calibrator of probmetrics, from log-probabilities, as its documentation shows."""
    from probmetrics.calibrators import get_calibrator
    from probmetrics.distributions import CategoricalLogits

    logits, labels = tensors(folder)
    scores = CategoricalLogits(torch.log_softmax(logits, dim=1))

    def run() -> object:
        calibrator = get_calibrator(name)
        calibrator.fit_torch(scores, labels)
        return calibrator

    def nll(calibrator: object) -> float:
        return mean_nll(calibrator.predict_proba_torch(scores).get_probs(), arrays(folder)[1])

    return run, nll


def netcal_ts(folder: str) -> Work:
    """Temperature scaling of netcal."""
    from netcal.scaling import TemperatureScaling

    probs, labels = probabilities(folder), arrays(folder)[1]

    def run() -> object:
        calibrator = TemperatureScaling()
        calibrator.fit(probs, labels)
        return calibrator

    return run, lambda calibrator: mean_nll(calibrator.transform(probs), labels)


def sklearn_isotonic(folder: str) -> Work:
    """Isotonic regression per class, one against the rest."""
    from sklearn.isotonic import IsotonicRegression

    probs, labels = probabilities(folder), arrays(folder)[1]
    targets = [(labels == k).astype(np.float64) for k in range(probs.shape[1])]

    def run() -> list[IsotonicRegression]:
        fit = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit
        return [fit(probs[:, k], target) for k, target in enumerate(targets)]

    return run, lambda _: float("nan")


def sklearn_temperature(folder: str) -> Work:
    """What CalibratedClassifierCV(method="temperature") does behind its cross validation."""
    from sklearn.calibration import _TemperatureScaling

    scores, labels = log_probabilities(folder), arrays(folder)[1]
    return (
        lambda: _TemperatureScaling().fit(scores, labels),
        lambda fitted: mean_nll(fitted.predict(scores), labels),
    )


def torchmetrics_ece(folder: str) -> Work:
    """The ECE of torchmetrics, from probabilities."""
    from torchmetrics.functional.classification import multiclass_calibration_error

    probs, labels = torch.from_numpy(probabilities(folder)), tensors(folder)[1]

    def run() -> torch.Tensor:
        return multiclass_calibration_error(probs, labels, num_classes=probs.shape[1], n_bins=15, norm="l1")

    return run, lambda value: float(torch.as_tensor(value))


def netcal_ece(folder: str) -> Work:
    """The ECE of netcal, from probabilities."""
    from netcal.metrics import ECE

    probs, labels = probabilities(folder), arrays(folder)[1]
    return lambda: ECE(15).measure(probs, labels), lambda value: float(value)


def marginal_ce(folder: str) -> Work:
    """The debiased marginal calibration error of uncertainty-calibration."""
    import calibration

    probs, labels = probabilities(folder).astype(np.float64), arrays(folder)[1]
    return (
        lambda: calibration.utils.lower_bound_scaling_ce(probs, labels, num_bins=15),
        lambda value: float(value),
    )


def numpy_softmax(folder: str) -> Work:
    """A softmax as it is written everywhere: the least that a user pays for probabilities today."""
    logits, _ = arrays(folder)

    def run() -> np.ndarray:
        shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
        return shifted / shifted.sum(axis=1, keepdims=True)

    return run, lambda probs: mean_nll(probs, arrays(folder)[1])


WORKS: dict[str, Callable[[str], Work]] = {
    "torch-ts": torch_ts,
    "torch-oi-10": lambda folder: order_preserving(folder, [10, 10], 40, True),
    "torch-oi-100": lambda folder: order_preserving(folder, [100, 100], 40, True),
    "torch-oi-epoch": lambda folder: order_preserving(folder, [150, 150], 1, True),
    "torch-op-epoch": lambda folder: order_preserving(folder, [150, 150], 1, False),
    "torch-oi-100-held-out": lambda folder: order_preserving(folder, [100, 100], 40, True, held_out=True),
    "torch-oi-150-held-out": lambda folder: order_preserving(folder, [150, 150], 40, True, held_out=True),
    "torch-op-150-held-out": lambda folder: order_preserving(folder, [150, 150], 40, False, held_out=True),
    "torch-diag-pass": diag_pass,
    "probmetrics-ts": lambda folder: probmetrics_fit(folder, "temp-scaling"),
    "probmetrics-svs": lambda folder: probmetrics_fit(folder, "svs"),
    "probmetrics-sms": lambda folder: probmetrics_fit(folder, "sms"),
    "netcal-ts": netcal_ts,
    "sklearn-ts": sklearn_temperature,
    "sklearn-isotonic": sklearn_isotonic,
    "torchmetrics-ece": torchmetrics_ece,
    "netcal-ece": netcal_ece,
    "uncertainty-calibration-marginal": marginal_ce,
    "numpy-softmax": numpy_softmax,
}


if __name__ == "__main__":
    serve(WORKS)
