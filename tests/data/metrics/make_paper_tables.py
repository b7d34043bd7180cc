"""Writes paper_tables.json: the printed numbers and ranks of the tables of Rahimi et al. (2020).

Run on the LaTeX source of "Intra Order-preserving Functions for Calibration of Multi-Class Neural
Networks":  python3 make_paper_tables.py paper.tex
Numbers are kept as printed, with all their digits, because the tests ask what rounding can explain.
"""

import json
import re
import sys
from pathlib import Path

LABELS = {
    "ece": "tbl:ece_paper",
    "brier": "tbl:brier",
    "nll": "tbl:nll",
    "classwise_ece_sum": "tbl:cwece",
    "debiased_ece": "tbl:debiasedECE",
    "marginal_ce": "tbl:marginalECE",
}
METHODS = ["uncalibrated", "ts", "dir-odir", "ms-odir", "diag", "oi", "op", "unconstrained"]
# A value with its rank, bold or not: $0.0113_5$, ${\bf 0.0061}_1$, $\mathbf{0.27}_1$.
CELL = re.compile(r"\$\{?(?:\\bf|\\mathbf)?\{?\s*([0-9.]+)\}?_([0-9])")


def main(path):
    source = Path(path).read_text()
    tables = {}
    for metric, label in LABELS.items():
        start = source.index("\\label{" + label + "}")
        body = source[start : source.index("\\end{tabular}", start)]
        rows, average = [], None
        for line in body.split("\\\\"):
            values = CELL.findall(line)
            if len(values) < 7:
                continue
            row = {"values": [v for v, _ in values], "ranks": [int(r) for _, r in values]}
            if "Relative Error" in line:
                average = row
            else:
                dataset, model = line.split("&")[:2]
                name = dataset.split()[-1] + " " + " ".join(model.replace("~", " ").split())
                rows.append({"name": name, **row})
        assert len(rows) == 14 and average
        tables[metric] = {
            "methods": METHODS[: len(average["values"])],
            "rows": rows,
            "average_relative_error": average,
        }
    text = json.dumps(tables, indent=1)
    text = re.sub(r"\[\s+([^\[\]{}]*?)\s+\]", lambda m: "[" + " ".join(m[1].split()) + "]", text)
    (Path(__file__).resolve().parent / "paper_tables.json").write_text(text + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
