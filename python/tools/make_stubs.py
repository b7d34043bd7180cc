"""Writes `methods.pyi` from what the library says: `python tools/make_stubs.py > py_src/ordercal/methods.pyi`."""

from __future__ import annotations

import inspect

from ordercal._calibrator import REGISTRY

GROUPS = {"optimizer": "dict[str, Any] | None", "early_stopping": "dict[str, Any] | None", "folds": "int | None"}
TYPES = {bool: "bool", int: "int", float: "float", str: "str", tuple: "Sequence[int]"}

print('"""The keywords of every method, made by `tools/make_stubs.py`; stubtest holds them to what the library says."""')
print("\nfrom collections.abc import Sequence\nfrom typing import Any\n\nfrom ._calibrator import Calibrator")
for found in REGISTRY.values():
    print(f"\nclass {found.__name__}(Calibrator):")
    keywords = list(inspect.signature(found).parameters.values())
    kinds = {k.name: GROUPS.get(k.name) or TYPES[type(k.default)] for k in keywords}
    for name, kind in kinds.items():
        if name != "kind":
            print(f"    {name}: {kind}")
    print("    def __init__(\n        self,\n        /,\n        *,")
    for k in keywords:
        default = f'"{k.default}"' if isinstance(k.default, str) else repr(k.default)
        print(f"        {k.name}: {kinds[k.name]} = {default},")
    print("    ) -> None: ...")
