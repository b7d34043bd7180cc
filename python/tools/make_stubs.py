"""Writes what follows from the library: run it after a method, a setting or a metric was added.

`python tools/make_stubs.py`, with the package installed, writes `methods.pyi` (the keywords of every method), `_types.py`
(the keys that texts may be) and `_parameters.py` (what every keyword means, from the Rust documentation).
"""

from __future__ import annotations

import inspect
import pprint
import re
from pathlib import Path

from ordercal import _native
from ordercal._calibrator import REGISTRY

HERE = Path(__file__).resolve().parent.parent
PACKAGE = HERE / "py_src" / "ordercal"
LIBRARY = HERE.parent / "crates" / "ordercal" / "src"

GROUPS = {
    "optimizer": "dict[str, Any] | None",
    "early_stopping": "dict[str, Any] | None",
    "folds": "int | None",
    "top": "int | None",
}
TYPES = {bool: "bool", int: "int", float: "float", str: "str", tuple: "Sequence[int]"}


def stubs() -> str:
    """The keywords of every class."""
    lines = [
        '"""The keywords of every method, made by `tools/make_stubs.py`; stubtest holds them to what the library says."""',
        "\nfrom collections.abc import Sequence\nfrom typing import Any\n\nfrom ._calibrator import Calibrator",
        "from ._types import Kind",
    ]
    for found in REGISTRY.values():
        lines.append(f"\nclass {found.__name__}(Calibrator):")
        keywords = list(inspect.signature(found).parameters.values())
        kinds = {k.name: GROUPS.get(k.name) or TYPES[type(k.default)] for k in keywords}
        kinds["kind"] = "Kind"
        own = [f"    {name}: {kind}" for name, kind in kinds.items() if name != "kind"]
        for name, value in vars(found).items():
            if isinstance(value, property):
                own.append(f"    @property\n    def {name}(self) -> {value.fget.__annotations__['return']}: ...")
        lines += own
        lines.append("    def __init__(\n        self,\n        /,\n        *,")
        for k in keywords:
            default = f'"{k.default}"' if isinstance(k.default, str) else repr(k.default)
            lines.append(f"        {k.name}: {kinds[k.name]} = {default},")
        lines.append("    ) -> None: ...")
    names = "".join(f'    "{name}",\n' for name in sorted(found.__name__ for found in REGISTRY.values()))
    lines.insert(3, f"\n__all__ = [\n{names}]")
    return "\n".join(lines) + "\n"


def types() -> str:
    """The keys that texts may be."""

    def literal(name: str, keys: list[str]) -> str:
        return f"{name} = Literal[\n" + "".join(f'    "{key}",\n' for key in keys) + "]\n"

    keys = _native.keys()
    free = [f"{key}+order" for key in keys if not _native.promises_order(key)]
    return (
        '"""The keys that texts may be, made by `tools/make_stubs.py`; a test holds them to what the library says."""\n\n'
        "from __future__ import annotations\n\nfrom typing import Literal\n\n"
        'Kind = Literal["logits", "log-probs", "probs"]\n'
        'Search = Literal["none", "quick", "paper"]\n'
        'Binning = Literal["equal-width", "equal-mass"]\n'
        + literal("MethodKey", keys + free)
        + literal("MetricKey", [key for key, _ in _native.metrics()])
    )


def structs() -> dict[frozenset[str], dict[str, str]]:
    """The documentation of the fields of every Rust struct of settings, by the names of the fields."""
    found = {}
    for path in sorted(LIBRARY.rglob("*.rs")):
        for body in re.findall(r"pub struct \$?\w+(?:<[^>]*>)? \{\n(.*?)\n\s*\}", path.read_text(), re.S):
            fields: dict[str, str] = {}
            text: list[str] = []
            for line in body.splitlines():
                line = line.strip()
                if line.startswith("///"):
                    text.append(line[3:].strip())
                elif match := re.match(r"pub (?:r#)?(\w+):", line):
                    fields[match[1]] = " ".join(text)
                    text = []
            if fields:
                found[frozenset(fields)] = fields
    return found


def parameters() -> str:
    """What every keyword means."""
    documented = structs()
    table = {}
    for key, found in REGISTRY.items():
        names = frozenset(found._defaults)
        if not names:
            continue
        if names not in documented:
            raise SystemExit(f"no Rust struct has the fields of {key}: {', '.join(sorted(names))}")
        texts = documented[names]
        # Links of rustdoc are plain names here, and a field that Python reserves has an underscore.
        plain = {n: re.sub(r"\[(`[^`]+`)\](?:\([^)]*\))?", r"\1", t) for n, t in texts.items()}
        table[key] = {name: plain[name].replace("[`", "`").replace("`]", "`") for name in found._defaults}
    body = pprint.pformat(table, width=110, sort_dicts=False)
    return (
        '"""What the keywords of every method mean, made by `tools/make_stubs.py` from the Rust documentation."""\n\n'
        "from __future__ import annotations\n\n"
        f"PARAMETERS: dict[str, dict[str, str]] = {body}\n"
    )


if __name__ == "__main__":
    (PACKAGE / "methods.pyi").write_text(stubs())
    (PACKAGE / "_types.py").write_text(types())
    (PACKAGE / "_parameters.py").write_text(parameters())
