"""Fitted calibrators as PyTorch modules, for `Calibrator.to_torch`.

Each form of model has a module that turns scores into logits, with the formulas of the library's forms. Modules compute
in the type of their buffers, 64-bit floats unless they were converted. Where classes are masked, a value that cannot be
reached is kept finite, so that gradients are too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ._errors import OrdercalError
from ._types import Kind

#: As in the library: the smallest normal 32-bit float, the largest log-odds, the weight of the tempered distribution in
#: a projection, and the smallest log-probability that a kernel reads.
LEAST = float(np.finfo(np.float32).tiny)
LARGEST_LOG_ODDS = 500.0
SLIVER = 1e-6
LOWEST_LOG = -12.0


class Rows:
    """N×K scores with what most forms ask of them."""

    def __init__(self, scores: Tensor, ranked: Tensor | None = None) -> None:
        self.scores = scores
        #: Numbers that rank the classes as the input does.
        self.ranked = scores if ranked is None else ranked
        self.masked = torch.isneginf(scores)
        self.filled = self.fill(scores)
        #: N×1: how many classes are not masked.
        self.possible = (~self.masked).to(scores.dtype).sum(-1, keepdim=True)

    def fill(self, values: Tensor) -> Tensor:
        """Each row's smallest value in place of those of masked classes."""
        smallest = values.masked_fill(self.masked, math.inf).amin(-1, keepdim=True)
        return torch.where(self.masked, smallest, values)

    def shifted(self, values: Tensor, kind: str) -> Tensor:
        """Scores as a model reads them."""
        if kind == "raw":
            return values
        if kind == "centred":
            return values - self.filled.masked_fill(self.masked, 0.0).sum(-1, keepdim=True) / self.possible
        return values - torch.logsumexp(self.scores, -1, keepdim=True)

    def logs(self, logits: Tensor) -> Tensor:
        """ln softmax, with 0 for masked classes."""
        return torch.log_softmax(logits.masked_fill(self.masked, -math.inf), -1).masked_fill(self.masked, 0.0)

    def mask(self, logits: Tensor) -> Tensor:
        return logits.masked_fill(self.masked, -math.inf)


class Form(nn.Module):
    """A form of model: scores in, logits out; `-inf` where a class is masked."""

    def constant(self, name: str, values: Any, shape: tuple[int, ...] | None = None) -> None:
        """A buffer, which moves with the module."""
        array = np.asarray(values, dtype=np.float64)
        self.register_buffer(name, torch.from_numpy(array.reshape(array.shape if shape is None else shape).copy()))

    def logits(self, rows: Rows) -> Tensor:
        raise NotImplementedError


class Uncalibrated(Form):
    def __init__(self, settings: dict[str, Any], arrays: Arrays) -> None:
        super().__init__()

    def logits(self, rows: Rows) -> Tensor:
        return rows.scores


class Ts(Form):
    def __init__(self, settings: dict[str, Any], arrays: Arrays) -> None:
        super().__init__()
        self.beta: float = settings["beta"]

    def logits(self, rows: Rows) -> Tensor:
        return rows.mask(self.beta * rows.filled)


class Ets(Form):
    """ln(w₁ softmax(βx) + w₂ softmax(x) + w₃ uniform)."""

    def __init__(self, settings: dict[str, Any], arrays: Arrays) -> None:
        super().__init__()
        self.beta: float = settings["beta"]
        self.weights: list[float] = settings["weights"]

    def logits(self, rows: Rows) -> Tensor:
        tempered, original, uniform = self.weights
        terms = []
        for weight, beta in ((tempered, self.beta), (original, 1.0)):
            if weight > 0.0:
                terms.append(rows.logs(beta * rows.filled) + math.log(weight))
        if uniform > 0.0:
            terms.append((math.log(uniform) - rows.possible.log()).expand_as(rows.filled))
        return rows.mask(torch.logsumexp(torch.stack(terms), 0))


class Diag(Form):
    """One increasing function for all classes, quadratic between the nodes of an even grid and straight beyond."""

    def __init__(self, settings: dict[str, Any], arrays: Arrays) -> None:
        super().__init__()
        self.input: str = settings["input"]
        self.low, high = settings["range"]
        nodes = arrays["slopes"].astype(np.float64)
        self.intervals = len(nodes) - 1
        self.step = (high - self.low) / self.intervals
        values = np.concatenate([[0.0], np.cumsum(0.5 * self.step * (nodes[:-1] + nodes[1:]))])
        # The pieces: below the grid, its intervals, above the grid.
        self.constant("values", np.concatenate([[0.0], values[:-1], [values[-1]]]))
        self.constant("slopes", np.concatenate([[nodes[0]], nodes[:-1], [nodes[-1]]]))
        self.constant("changes", np.concatenate([[0.0], np.diff(nodes), [0.0]]))
        self.at_zero = float(self._value(torch.zeros((), dtype=torch.float64)))

    def _value(self, x: Tensor) -> Tensor:
        position = (x - self.low) / self.step
        floor = position.detach().floor()
        piece = (floor.clamp(-1, self.intervals) + 1).long()
        u = position - floor.clamp(0, self.intervals)
        slope = self.slopes[piece] + 0.5 * u * self.changes[piece]
        return self.values[piece] + self.step * u * slope

    def logits(self, rows: Rows) -> Tensor:
        return rows.mask(self._value(rows.shifted(rows.filled, self.input)) - self.at_zero)


class Network(Form):
    """A perceptron whose outputs are logits, or multipliers of the gaps between sorted scores."""

    def __init__(self, settings: dict[str, Any], arrays: Arrays) -> None:
        super().__init__()
        self.settings = settings
        self.top: int | None = settings.get("top")
        classes = settings["classes"]
        ends = (classes, classes)
        if self.top is not None:
            ends = (self.top + 1 if settings["wiring"] == "sorted-to-gaps" else classes + 1, self.top + 1)
        widths = [ends[0], *settings["hidden"], ends[1]]
        params = arrays["params"]
        self.layers = len(widths) - 1
        for layer, (fan_in, fan_out) in enumerate(zip(widths, widths[1:])):
            weights, biases, params = np.split(params, [fan_in * fan_out, (fan_in + 1) * fan_out])
            self.constant(f"weights_{layer}", weights, (fan_in, fan_out))
            self.constant(f"biases_{layer}", biases)

    def outputs(self, rows: Rows, scores: Tensor) -> Tensor:
        low, high = self.settings["range"]
        values = (rows.shifted(scores, self.settings["input"]) / self.settings["scale"]).clamp(low, high)
        for layer in range(self.layers):
            values = values @ getattr(self, f"weights_{layer}") + getattr(self, f"biases_{layer}")
            if layer < self.layers - 1:
                values = values.relu()
        return values

    def logits(self, rows: Rows) -> Tensor:
        wiring = self.settings["wiring"]
        if wiring == "classes-to-logits":
            return rows.mask(self.outputs(rows, rows.filled))
        ordered, order = rows.filled.sort(dim=-1, descending=True, stable=True)
        read = ordered if wiring == "sorted-to-gaps" else rows.filled
        if self.top is not None:
            behind = ordered[:, self.top :]
            # Masked classes are sorted last. Without a rest, its mass is below any input.
            masked = torch.arange(self.top, ordered.shape[-1], device=ordered.device) >= rows.possible
            rest = torch.logsumexp(behind.masked_fill(masked, -1e30), -1, keepdim=True)
            read = ordered[:, : self.top] if wiring == "sorted-to-gaps" else torch.maximum(read, behind[:, :1])
            read = torch.cat([read, rest], -1)
        outputs = self.outputs(rows, read)
        # softplus(z + c) with c such that z = 0 gives 1; never 0, so that distinct scores stay distinct.
        multipliers = F.softplus(outputs + math.log(math.e - 1.0), 1.0, 40.0).clamp_min(LEAST)
        if self.top is not None:
            shared = multipliers[:, self.top :].expand(-1, ordered.shape[-1] - self.top)
            multipliers = torch.cat([multipliers[:, : self.top], shared], -1)
        gaps = ordered - torch.cat([ordered[:, 1:], ordered[:, -1:]], -1)
        levels = (self.settings["beta"] * gaps * multipliers).flip(-1).cumsum(-1).flip(-1)
        return rows.mask(torch.zeros_like(levels).scatter(-1, order, levels))


class Linear(Form):
    """u + uD + b of a row's features u."""

    def __init__(self, settings: dict[str, Any], arrays: Arrays) -> None:
        super().__init__()
        self.features: dict[str, Any] = settings["features"]
        classes = settings["classes"]
        deviation = arrays["deviation"]
        self.diagonal = len(deviation) == classes
        self.constant("deviation", deviation, (classes,) if self.diagonal else (classes, classes))
        self.constant("bias", arrays["bias"])

    def logits(self, rows: Rows) -> Tensor:
        beta = self.features["beta"]
        if self.features["kind"] == "tempered":
            low, high = self.features["range"]
            u = (beta * rows.shifted(rows.filled, self.features["input"])).clamp(low, high)
        else:
            share = self.features["share"]
            u = rows.fill((1.0 - share) * rows.logs(beta * rows.filled).exp() + share / rows.possible).log()
        change = u * self.deviation if self.diagonal else u @ self.deviation
        return rows.mask(u + change + self.bias)


class OneVsRest(Form):
    """A map of each class's log-odds to a probability; these are normalised and mixed with the uniform distribution."""

    share: float

    def probabilities(self, log_odds: Tensor) -> Tensor:
        raise NotImplementedError

    def logits(self, rows: Rows) -> Tensor:
        log_odds = self.log_odds(rows)
        if log_odds.shape[-1] == 2:
            second = self.probabilities(log_odds[:, 1:])
            found = torch.cat([1.0 - second, second], -1)
        else:
            found = self.probabilities(log_odds)
        total = found.masked_fill(rows.masked, 0.0).sum(-1, keepdim=True)
        # A row whose probabilities are all 0 becomes uniform.
        some = total > 0.0
        normalised = torch.where(some, found / torch.where(some, total, 1.0), 1.0 / rows.possible)
        mixed = (1.0 - self.share) * normalised + self.share / rows.possible
        return rows.mask(mixed.clamp_min(torch.finfo(mixed.dtype).tiny).log())

    @staticmethod
    def log_odds(rows: Rows) -> Tensor:
        """x − ln Σ e^x over the other classes, without the cancellation that would leave nothing for a top class."""
        largest = rows.scores.amax(-1, keepdim=True)
        below = rows.filled - largest
        exps = below.exp().masked_fill(rows.masked, 0.0)
        top = rows.scores == largest
        tops = top.to(exps.dtype).sum(-1, keepdim=True)
        small = exps.masked_fill(top, 0.0).sum(-1, keepdim=True)
        rest = torch.where(top, small + tops - 1.0, small + tops - exps)
        log_rest = rest.clamp_min(torch.finfo(rest.dtype).tiny).log()
        return (below - log_rest).clamp(-LARGEST_LOG_ODDS, LARGEST_LOG_ODDS)


class Logistic(OneVsRest):
    """σ(a ln p − b ln(1 − p) + c)."""

    def __init__(self, settings: dict[str, Any], arrays: Arrays) -> None:
        super().__init__()
        self.share = settings["share"]
        self.constant("coefficients", arrays["coefficients"].reshape(-1, 3).T)

    def probabilities(self, log_odds: Tensor) -> Tensor:
        a, b, c = self.coefficients
        return torch.sigmoid(b * F.softplus(log_odds, 1.0, 40.0) - a * F.softplus(-log_odds, 1.0, 40.0) + c)


class Curves(OneVsRest):
    """A curve per class through knots, straight between them or in steps."""

    def __init__(self, settings: dict[str, Any], arrays: Arrays) -> None:
        super().__init__()
        self.share = settings["share"]
        self.steps = settings["kind"] == "steps"
        ends = np.cumsum(arrays["knots"])
        longest = int(arrays["knots"].max())
        # Shorter curves are continued by copies of their last knot, beyond every probability.
        x, y = (np.array([self._padded(part, longest) for part in np.split(arrays[name], ends[:-1])]) for name in "xy")
        self.constant("x", x)
        self.constant("y", y)
        self.constant("sought", [self._padded(part, longest, 2.0) for part in np.split(arrays["x"], ends[:-1])])

    @staticmethod
    def _padded(values: Any, longest: int, fill: float | None = None) -> Any:
        return np.pad(values, (0, longest - len(values)), constant_values=values[-1] if fill is None else fill)

    def probabilities(self, log_odds: Tensor) -> Tensor:
        p = torch.sigmoid(log_odds).T.contiguous()
        # How many knots lie below.
        below = torch.searchsorted(self.sought, p.detach())
        last = self.x.shape[1] - 1
        before, behind = (below - 1).clamp(0, last), below.clamp(0, last)
        y0 = self.y.gather(1, before)
        if self.steps:
            # A sum with a gradient of 0, for callers that differentiate.
            return (y0 + 0.0 * p).T
        x0, x1, y1 = self.x.gather(1, before), self.x.gather(1, behind), self.y.gather(1, behind)
        width = x1 - x0
        along = (p - x0) / torch.where(width == 0.0, 1.0, width)
        return torch.where(width == 0.0, y0 + 0.0 * p, y0 + (y1 - y0) * along).T


class Kernel(Form):
    """ln p + b + Σ_j k(p, c_j) v_j, with a Gaussian kernel between square roots of probabilities."""

    def __init__(self, settings: dict[str, Any], arrays: Arrays) -> None:
        super().__init__()
        classes = settings["classes"]
        self.scale: float = settings["scale"]
        self.constant("centres", arrays["centres"], (-1, classes))
        self.constant("coefficients", arrays["coefficients"], (-1, classes))
        self.constant("bias", arrays["bias"])

    def logits(self, rows: Rows) -> Tensor:
        logs = rows.logs(rows.filled).masked_fill(rows.masked, LOWEST_LOG).clamp_min(LOWEST_LOG)
        roots = (0.5 * logs).exp()
        norms = (roots * roots).sum(-1, keepdim=True) + (self.centres * self.centres).sum(-1)
        kernel = (-self.scale * (norms - 2.0 * roots @ self.centres.T).clamp_min(0.0)).exp()
        return rows.mask(logs + kernel @ self.coefficients + self.bias)


class Ordered(Form):
    """A model whose probabilities are projected onto the order of the scores, mixed with a little of the input."""

    def __init__(self, settings: dict[str, Any], arrays: Arrays) -> None:
        super().__init__()
        self.beta: float = settings["beta"]
        self.inner = form(settings["inner"], arrays)

    def logits(self, rows: Rows) -> Tensor:
        probs = torch.softmax(self.inner.logits(rows), -1)
        # By descending score and, among equal scores, by ascending probability, so that these are pooled.
        _, first = probs.sort(dim=-1, stable=True)
        _, second = rows.ranked.gather(-1, first).sort(dim=-1, descending=True, stable=True)
        order = first.gather(-1, second)
        pooled = torch.zeros_like(probs).scatter(-1, order, pool(probs.gather(-1, order)))
        most = pooled.clamp_min(torch.finfo(pooled.dtype).tiny).log() + math.log1p(-SLIVER)
        sliver = rows.logs(self.beta * rows.filled) + math.log(SLIVER)
        return rows.mask(torch.logaddexp(most, sliver))


def pool(values: Tensor) -> Tensor:
    """The closest non-increasing rows: isotonic regression by divide and conquer, without a loop over the classes.

    With both halves of a segment solved, l and r, max(l, t) followed by min(r, t) solves it, where the level t balances
    what they gain and lose: Σ max(t − l, 0) = Σ max(r − t, 0).
    """
    rows, classes = values.shape
    padded = 1 << (classes - 1).bit_length()
    values = F.pad(values, (0, padded - classes))
    half = 1
    while half < padded:
        segments = values.reshape(-1, 2 * half)
        left, right = segments[:, :half], segments[:, half:]
        last, first = left[:, -1:], right[:, :1]
        level = _level(segments, half).maximum(last.minimum(first)).minimum(last.maximum(first))
        values = torch.cat([left.maximum(level), right.minimum(level)], -1)
        half *= 2
    return values.reshape(-1, padded)[:, :classes]


def _level(segments: Tensor, half: int) -> Tensor:
    """The level of each segment; arbitrary where nothing has to move."""
    ordered, places = segments.sort(dim=-1, descending=True, stable=True)
    from_right = places >= half
    rights = ordered.masked_fill(~from_right, 0.0)
    lefts = ordered.masked_fill(from_right, 0.0)
    # If t is between a value and the next smaller one, the right ones above it and the left ones below it move to t:
    # their sums and counts, for each place of t.
    below = lefts.flip(-1).cumsum(-1).flip(-1) - lefts
    sums = rights.cumsum(-1) + below
    behind = half - 1.0 - torch.arange(2 * half, dtype=segments.dtype, device=segments.device)
    counts = 2.0 * from_right.to(segments.dtype).cumsum(-1) + behind
    # t is between the last value at which the left gains enough and the next.
    short = (sums > counts * ordered).sum(-1, keepdim=True)
    last = (2 * half - 1 - short).clamp_min(0)
    return sums.gather(-1, last) / counts.gather(-1, last).clamp_min(1.0)


class Mixture(Form):
    """ln Σ wᵢ softmax(fᵢ(x))."""

    def __init__(self, settings: dict[str, Any], arrays: Arrays) -> None:
        super().__init__()
        members = settings["members"]
        self.weights: list[float] = list(settings["weights"])
        self.members = nn.ModuleList(form(member, arrays.below(f"{i}.")) for i, member in enumerate(members))

    def logits(self, rows: Rows) -> Tensor:
        pairs = zip(self.weights, self.members)
        terms = [rows.logs(member.logits(rows)) + math.log(weight) for weight, member in pairs]
        return rows.mask(torch.logsumexp(torch.stack(terms), 0))


class Chain(Form):
    """g(ln softmax(f(x)))."""

    def __init__(self, settings: dict[str, Any], arrays: Arrays) -> None:
        super().__init__()
        self.first = form(settings["first"], arrays.below("first."))
        self.then = form(settings["then"], arrays.below("then."))

    def logits(self, rows: Rows) -> Tensor:
        between = rows.mask(rows.logs(self.first.logits(rows)))
        return self.then.logits(Rows(between))


class Arrays:
    """The arrays of a model by name; those of a nested model have a prefix."""

    def __init__(self, arrays: dict[str, Any], prefix: str = "") -> None:
        self.arrays, self.prefix = arrays, prefix

    def __getitem__(self, name: str) -> Any:
        return self.arrays[self.prefix + name]

    def below(self, prefix: str) -> Arrays:
        return Arrays(self.arrays, self.prefix + prefix)


FORMS: dict[str, Callable[[dict[str, Any], Arrays], Form]] = {
    "uncalibrated": Uncalibrated,
    "ts": Ts,
    "ets": Ets,
    "diag": Diag,
    "network": Network,
    "linear": Linear,
    "logistic": Logistic,
    "curves": Curves,
    "kernel": Kernel,
    "ordered": Ordered,
    "mixture": Mixture,
    "chain": Chain,
}


def form(settings: dict[str, Any], arrays: Arrays) -> Form:
    name = settings["form"]
    if name not in FORMS:
        raise OrdercalError(f"models of the form `{name}` cannot be converted to PyTorch; those of the library's own methods can")
    return FORMS[name](settings, arrays)


class TorchCalibrator(nn.Module):
    """A fitted calibrator as a module: scores in, probabilities (or what `output` says) of the same shape out.

    It computes in 64 bits, or in the type that `.to(dtype)` gave its buffers, and returns the type of its input, 32-bit
    floats for 16-bit ones. It has no parameters to train; gradients pass through to the scores. The top class of a row
    stays strictly on top if the calibrator keeps the order, and no two classes change places.
    """

    def __init__(self, settings: dict[str, Any], arrays: dict[str, Any], kind: Kind, output: Kind, keep_order: bool) -> None:
        super().__init__()
        self.form = form(settings, Arrays(arrays))
        self.kind, self.output, self.keep_order = kind, output, keep_order
        self.register_buffer("precision", torch.ones((), dtype=torch.float64), persistent=False)

    def forward(self, scores: Tensor) -> Tensor:
        """Calibrates rows, N×K."""
        wide = scores.to(self.precision.dtype)
        if self.kind == "probs":
            # As in the library: 0 is raised, not masked, and logarithms have 32 bits.
            exact = wide.clamp_min(LEAST).log()
            rows = Rows(exact.to(torch.float32).to(wide.dtype), exact)
        else:
            rows = Rows(wide)
        logits = self.form.logits(rows)
        if self.output == "probs":
            result = torch.softmax(logits, -1)
        elif self.output == "log-probs":
            result = torch.log_softmax(logits, -1)
        else:
            result = logits
        dtype = scores.dtype if scores.dtype in (torch.float32, torch.float64) else torch.float32
        result = result.to(dtype)
        if not self.keep_order:
            return result
        # Rounding must not tie the top class with others.
        on_top = scores == scores.amax(-1, keepdim=True)
        largest = result.amax(-1, keepdim=True)
        info = torch.finfo(dtype)
        below = largest - (largest.detach().abs() * info.eps).clamp_min(info.tiny)
        return torch.where(on_top, largest, result.minimum(below))

    def extra_repr(self) -> str:
        return f"kind={self.kind!r}, output={self.output!r}, keep_order={self.keep_order}"
