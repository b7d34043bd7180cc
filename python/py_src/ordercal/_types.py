"""The keys that texts may be; `tests/test_package.py` compares them with the library's."""

from __future__ import annotations

from typing import Literal

Kind = Literal["logits", "log-probs", "probs"]
Search = Literal["none", "quick", "paper"]
Binning = Literal["equal-width", "equal-mass"]
MethodKey = Literal[
    "uncalibrated",
    "ts",
    "ets",
    "vs",
    "ms-odir",
    "dir-odir",
    "svs",
    "sms",
    "platt",
    "beta",
    "isotonic",
    "histogram",
    "bbq",
    "diag",
    "oi",
    "op",
    "unconstrained",
    "auto",
    "auto-free",
    "vs+order",
    "ms-odir+order",
    "dir-odir+order",
    "svs+order",
    "sms+order",
    "platt+order",
    "beta+order",
    "isotonic+order",
    "histogram+order",
    "bbq+order",
    "unconstrained+order",
    "auto-free+order",
]
MetricKey = Literal[
    "accuracy",
    "top5",
    "nll",
    "brier",
    "ece",
    "mce",
    "adaptive_ece",
    "classwise_ece",
    "classwise_ece_sum",
    "debiased_ece",
    "marginal_ce",
    "ks",
    "sm_ece",
    "brier_sum",
    "ece_positive",
    "auroc",
    "ap",
    "aurc",
    "eaurc",
    "spiegelhalter_z",
    "cox_slope",
    "cox_intercept",
    "accuracy_at_coverage",
]
