"""Counts lines of code, of documentation and of tests for each crate: `python3 xtask/src/lines.py [REVISION]`.

Blank lines and comments are not counted. Documentation is Rust's doc comments and Python's docstrings. Tests are test
folders, items below `#[cfg(test)]`, the test kit, the fuzzer and what makes test data.
"""

import ast
import collections
import io
import subprocess
import sys
import tarfile

revision = sys.argv[1] if len(sys.argv) > 1 else None
if revision:
    archive = tarfile.open(fileobj=io.BytesIO(subprocess.check_output(["git", "archive", revision])))
    sources = {m.name: archive.extractfile(m).read() for m in archive if m.isfile() and m.name.endswith((".rs", ".py", ".pyi"))}
else:
    names = subprocess.check_output(["git", "ls-files", "*.rs", "*.py", "*.pyi"], text=True).split()
    sources = {name: open(name, "rb").read() for name in names}


def rust_test_lines(lines):
    """Numbers of the lines of items below `#[cfg(test)]`."""
    found, at = set(), 0
    while at < len(lines):
        start = at
        at += 1
        if not lines[start].strip().startswith("#[cfg(test)]"):
            continue
        indent = lines[start][: len(lines[start]) - len(lines[start].lstrip())]
        while lines[at].strip().startswith("#"):
            at += 1
        if not lines[at].rstrip().endswith((";", "}")):
            while lines[at].rstrip() != indent + "}":
                at += 1
        at += 1
        found.update(range(start, at))
    return found


def docstring_lines(text):
    """Numbers of the lines of docstrings."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
                found.update(range(first.lineno - 1, first.end_lineno))
    return found


totals = collections.defaultdict(lambda: [0, 0, 0])
for name, source in sources.items():
    text = source.decode()
    lines = text.split("\n")
    rust = name.endswith(".rs")
    parts = name.split("/")
    crate = parts[1] if parts[0] == "crates" else parts[0]
    whole = any(word in "/" + name for word in ("/tests/", "testkit", "/fuzz/", "/tests.rs"))
    tests = rust_test_lines(lines) if rust and not whole else set()
    docs = set() if rust else docstring_lines(text)
    for number, line in enumerate(lines):
        line = line.strip()
        documentation = line.startswith(("///", "//!")) if rust else number in docs
        if not line or (line.startswith("//" if rust else "#") and not documentation):
            continue
        kind = 2 if whole or number in tests else 1 if documentation else 0
        totals[crate][kind] += 1
print(f"{'':20}{'code':>8}{'docs':>8}{'tests':>8}")
for crate, counts in sorted(totals.items()):
    print(f"{crate:20}" + "".join(f"{count:8}" for count in counts))
print(f"{'total':20}" + "".join(f"{sum(counts):8}" for counts in zip(*totals.values())))
