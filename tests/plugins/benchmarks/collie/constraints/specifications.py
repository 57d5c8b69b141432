"""Random specifications that fit together, for property tests."""

from __future__ import annotations

import functools
from typing import Any

from hypothesis import strategies as st

from harness.errors import DataInvalid
from harness.plugins.benchmarks.collie.constraints.grammar import Specification, read

UNITS = ["character", "word", "sentence", "paragraph"]
Fitting = tuple[dict[str, Any], Any]
"""A constraint in its plain form, and its targets."""


@st.composite
def plain_specifications(draw: st.DrawFn) -> dict[str, Any]:
    """The plain form of a specification that `read` accepts."""

    def fitting(depth: int) -> Fitting:
        if depth and draw(st.booleans()):
            logic = draw(st.sampled_from(["and", "or", "all"]))
            parts = [fitting(depth - 1) for _ in range(draw(st.integers(2, 3)))]
            return {"logic": logic, "constraints": [p for p, _ in parts]}, [t for _, t in parts]
        base, targets = draw(st.sampled_from(every_fitting()))
        part = {"level": "paragraph", "index": draw(st.integers(-2, 1))}
        return (base | {"within": [part]} if draw(st.booleans()) else base), targets

    constraint, targets = fitting(2)
    return {"level": "passage", "constraint": constraint, "targets": targets}


def specifications() -> st.SearchStrategy[Specification]:
    return plain_specifications().map(read)


@functools.cache
def every_fitting() -> list[Fitting]:
    """Every base constraint with a target that `read` accepts."""
    found: list[Fitting] = []
    each = [
        {"op": "identity"},
        {"op": "count"},
        {"op": "count", "of": "the"},
        {"op": "position", "index": 1},
        {"op": "position", "index": -1},
        {"op": "position", "index": [0, 2]},
    ]
    nested = [*each, *({"op": "for_each", "do": do} for do in each)]
    nested += [{"op": "max", "do": {"op": "for_each", "do": {"op": "count"}}}]
    nested += [{"op": "min", "do": {"op": "for_each", "do": {"op": "count"}}}]
    levels: list[tuple[str | None, str]] = [(None, unit) for unit in UNITS]
    levels += [(UNITS[j], UNITS[i]) for j in range(4) for i in range(j)]
    targets: list[Any] = [0, 3, "a", "Bird", [2], ["the"], [2, 4], ["a", "Bird"]]
    for input_level, target_level in levels:
        for transformation in nested:
            for relation in ("==", "!=", "<", ">", "<=", ">=", "in", "not in"):
                for reduction, n in ((None, None), ("all", None), ("any", None), ("at most", 1)):
                    base = {
                        "input_level": input_level,
                        "target_level": target_level,
                        "transformation": transformation,
                        "relation": relation,
                        "reduction": reduction,
                        "reduction_value": n,
                    }
                    for target in targets:
                        form = {"level": "passage", "constraint": base, "targets": target}
                        try:
                            read(form)
                        except DataInvalid:
                            continue
                        found.append((base, target))
    return found
