"""Makes small.json, what `ordercal compare --json` says about the data in the repository.

Run from the repository: python tests/data/compare/make.py. The tests of the tool and of the Python package
compare with it, so that the two give the same numbers.
"""

import json
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[3]
# Convex problems: what a network ends at depends on how a processor rounds.
METHODS = "ts,vs,svs+order,svs"
METRICS = "nll,ece,classwise_ece_sum,brier"

command = ["cargo", "run", "--quiet", "--", "compare"]
command += ["crates/ordercal-cli/demo/letters.npz", "crates/ordercal-cli/demo/fashion_mnist.npz"]
command += ["--methods", METHODS, "--metrics", METRICS, "--bootstrap", "0", "--json"]
found = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout)
for dataset in found["datasets"]:
    for method in dataset["methods"]:
        del method["fit_seconds"]
Path(__file__).with_name("small.json").write_text(json.dumps(found, indent=1) + "\n")
