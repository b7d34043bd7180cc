"""Runs the shell and Python blocks of pages, in order, each page in a folder of its own.

    python blocks.py [--fix] ROOT PROGRAMS SCRATCH PAGE...

Scripts of cells (`# %%`, as jupytext has them) in python/examples are pages too: docs/examples has them as Markdown, with outputs.

A ```text block that directly follows a block is its output and has to be equal to it; a line `...` in it stands for any
lines. Files that a page writes to `images/`, and those that draw.py draws for it, have to be equal to those of docs/images, and
every picture of a page has to be there. `--fix` writes outputs and pictures instead of comparing them. A block below `<!-- not run: REASON -->` is counted
only. Blocks of Rust are tested by `cargo test --doc`; here they only have to be known to it.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
import time
import traceback
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import draw

# The data of `ordercal demo --out .`, which pages may use.
DEMO = "crates/ordercal-cli/demo"
DOC_TESTS = "crates/ordercal-testkit/src/pages.rs"
LANGUAGES = ("sh", "python")
# Pictures that were drawn by hand, or by other commands of the project.
OTHER_PICTURES = ("which-method.svg", "families.svg", "reliability.svg")


@dataclass
class Block:
    language: str
    line: int  # of the first line of its text
    text: str
    skipped: str | None
    follows: bool  # nothing but empty lines is between it and the block before


def blocks_of(page: str) -> list[Block]:
    found: list[Block] = []
    language = skipped = None
    lines: list[str] = []
    follows = False
    for number, line in enumerate(page.splitlines(), start=1):
        if language is None:
            if fence := re.match(r"```(\w+)", line):
                language, start, lines = fence[1], number + 1, []
            elif mark := re.match(r"<!-- not run: (.+) -->", line):
                skipped = mark[1]
            elif line.strip():
                follows, skipped = False, None
        elif line.startswith("```"):
            found.append(Block(language, start, "".join(f"{line}\n" for line in lines), skipped, follows))
            language, skipped, follows = None, None, True
        else:
            lines.append(line)
    if language is not None:
        raise ValueError(f"the block of line {start - 1} does not end")
    return found


NUMBER = re.compile(r"\d+(?:\.\d+)?")
TIME = re.compile(r"in \d+(?:\.\d+)? (?:ms|s)\b")


def close(expected: str, found: str, tolerance: float | None = None) -> bool:
    """Whether two texts differ only in decimals, by a tolerance or two units of the last digit: matrix products are not the
    same to the last bit on every processor."""

    def near(a: str, b: str) -> bool:
        digits = len(a.partition(".")[2])
        allowed = 2.02 * 10.0**-digits if tolerance is None else tolerance
        return a == b or ("." in a + b and abs(float(a) - float(b)) <= allowed)

    # Times differ from run to run.
    expected, found = (TIME.sub("in a moment", text) for text in (expected, found))
    if NUMBER.sub("0", expected) != NUMBER.sub("0", found):
        return False
    return all(map(near, NUMBER.findall(expected), NUMBER.findall(found)))


def matches(expected: str, output: str) -> bool:
    first, *rest = re.split(r"^\.\.\.\n", expected, flags=re.MULTILINE)
    lines = output.splitlines(keepends=True)
    length = len(first.splitlines())
    if not rest:
        return close(expected, output)
    if not close(first, "".join(lines[:length])):
        return False
    remaining = "...\n".join(rest)
    return any(matches(remaining, "".join(lines[start:])) for start in range(length, len(lines) + 1))


def rendered(script: str) -> str:
    """A script of cells as a page, with an empty output below what prints."""
    parts = []
    for cell in re.split(r"^# %%", script, flags=re.MULTILINE)[1:]:
        head, _, body = cell.partition("\n")
        if "[markdown]" in head:
            parts.append(re.sub(r"^# ?", "", body.strip(), flags=re.MULTILINE))
        else:
            parts.append(f"```python\n{body.strip()}\n```" + ("\n```text\n```" if "print(" in body else ""))
    return "\n\n".join(parts) + "\n"


def without_outputs(page: str) -> str:
    return re.sub(r"^```text\n.*?^```$", "```text\n```", page, flags=re.DOTALL | re.MULTILINE)


def render_examples(root: Path, fix: bool) -> list[str]:
    """Says which pages of docs/examples are not their scripts; with `fix`, writes them."""
    problems = []
    for script in sorted((root / "python/examples").glob("*.py")):
        text = script.read_text(encoding="utf-8")
        page = root / "docs/examples" / f"{script.stem}.md"
        if not text.startswith("# %%"):
            continue
        if page.exists() and without_outputs(page.read_text(encoding="utf-8")) == rendered(text):
            continue
        if fix:
            page.parent.mkdir(exist_ok=True)
            page.write_text(rendered(text), encoding="utf-8")
        else:
            problems.append(f"docs/examples/{page.name} is not python/examples/{script.name}")
    return problems


class Page:
    def __init__(self, path: Path, root: Path, scratch: Path, drawn: dict[str, str], fix: bool) -> None:
        self.path, self.root, self.drawn, self.fix = path, root, drawn, fix
        self.text = path.read_text(encoding="utf-8")
        self.names: dict[str, object] = {"__name__": "__main__"}
        self.problems: list[str] = []
        self.counts: Counter[str] = Counter()
        self.folder = scratch / path.stem
        shutil.rmtree(self.folder, ignore_errors=True)
        (self.folder / "images").mkdir(parents=True)
        for file in (root / DEMO).glob("*.npz"):
            shutil.copy(file, self.folder)

    def complain(self, line: int, what: str) -> None:
        self.problems.append(f"{self.path.relative_to(self.root)}:{line}: {what}")

    def run(self) -> None:
        output = None
        changes: list[tuple[Block, str]] = []
        for block in blocks_of(self.text):
            if block.language == "rust":
                self.counts["rust"] += 1
                name = self.path.relative_to(self.root).as_posix()
                if name not in (self.root / DOC_TESTS).read_text(encoding="utf-8"):
                    self.complain(block.line, f"{DOC_TESTS} does not name this page, so its Rust is not tested")
            elif block.language in LANGUAGES and block.skipped:
                self.counts["not run"] += 1
                output = None
            elif block.language in LANGUAGES:
                self.counts[block.language] += 1
                output = self.shell(block) if block.language == "sh" else self.python(block)
            elif block.language == "text" and block.follows and output is not None:
                self.counts["outputs"] += 1
                if not matches(block.text, output):
                    changes.append((block, output))
                output = None
        if self.fix and changes:
            self.rewrite(changes)
        for block, output in [] if self.fix else changes:
            self.complain(block.line, f"the output is now\n{output}")
        self.compare_images()

    def shell(self, block: Block) -> str | None:
        run = subprocess.run(
            ["bash", "-eu", "-c", block.text], cwd=self.folder, capture_output=True, text=True, timeout=600, check=False
        )
        if run.returncode != 0:
            self.complain(block.line, f"exit code {run.returncode}\n{run.stdout}{run.stderr}")
            return None
        return run.stdout

    def python(self, block: Block) -> str | None:
        printed = io.StringIO()
        # Line numbers in tracebacks are those of the page.
        program = "\n" * (block.line - 1) + block.text
        try:
            code = compile(program, self.path.name, "exec")
            with contextlib.chdir(self.folder), contextlib.redirect_stdout(printed):
                exec(code, self.names)  # noqa: S102
        except Exception:
            self.complain(block.line, printed.getvalue() + traceback.format_exc(limit=-3))
            return None
        return printed.getvalue()

    def rewrite(self, changes: list[tuple[Block, str]]) -> None:
        lines = self.text.splitlines()
        for block, output in reversed(changes):
            length = len(block.text.splitlines())
            lines[block.line - 1 : block.line - 1 + length] = output.splitlines()
        self.path.write_text("\n".join(lines) + "\n", encoding="utf-8")

    def compare_images(self) -> None:
        kept = self.root / "docs/images"
        for name, picture in self.drawn.items():
            if f"images/{name}" in self.text:
                (self.folder / "images" / name).write_text(picture, encoding="utf-8")
        made = sorted((self.folder / "images").iterdir())
        for image in made:
            same = (kept / image.name).exists() and close(
                (kept / image.name).read_text(encoding="utf-8"), image.read_text(encoding="utf-8"), 0.5
            )
            if self.fix and not same:
                kept.mkdir(exist_ok=True)
                shutil.copy(image, kept)
            elif not same:
                self.complain(1, f"docs/images/{image.name} is not what this page makes")
        names = {image.name for image in made}.union(OTHER_PICTURES)
        for shown in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", self.text):
            if Path(shown).name not in names:
                self.complain(1, f"no block of this page makes the picture {shown}")


def main() -> int:
    arguments = sys.argv[1:]
    fix = "--fix" in arguments
    root, programs, scratch, *pages = (Path(a).resolve() for a in arguments if a != "--fix")
    os.environ["PATH"] = os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ["PATH"]])
    os.environ["MPLBACKEND"] = "Agg"
    # A block is a user's: none of the settings of this run.
    os.environ.pop("CARGO_TARGET_DIR", None)
    total: Counter[str] = Counter()
    problems = render_examples(root, fix)
    drawn = draw.pictures(root / DEMO)
    for path in pages:
        begin = time.monotonic()
        page = Page(path, root, scratch, drawn, fix)
        page.run()
        seconds = time.monotonic() - begin
        if seconds > 5:
            print(f"== docs: {path.name} took {seconds:.0f} s")
        total += page.counts
        problems += page.problems
    counts = ", ".join(f"{count} {what}" for what, count in sorted(total.items()))
    print(f"== docs: {len(pages)} pages: {counts}")
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
