"""Schemas for property tests: the generator's own, and ones of stranger names and values."""

from typing import Any

from hypothesis import strategies as st

from harness.plugins.builders.concodeeval import RANGES, ROOTS, drawn
from harness.plugins.builders.draws import Draws

SEEDS = st.integers(0, 2**32)

generated = st.builds(
    lambda root, high, vocabulary, seed: drawn(root, high, vocabulary, Draws(seed, "test")),
    st.sampled_from(ROOTS),
    st.sampled_from(RANGES),
    st.sampled_from(["paper", "extended"]),
    SEEDS,
)

NONCHARACTERS = "\ufdd0\ufdd1\ufdd2\ufffe\uffff"
CHARACTERS = st.characters(exclude_categories=["Cs", "Cc"], exclude_characters=NONCHARACTERS)
TEXT = st.text(CHARACTERS | st.sampled_from("\t\n\r\x85\u2028'\"\\"), max_size=8)
NAMES = TEXT | st.sampled_from(
    [
        "key",
        "item",
        "all",
        "copy",
        "class",
        "model_config",
        "a b",
        "1st",
        "_x",
        "/~",
        "",
        "<<",
        "on",
    ]
)
NUMBERS = st.integers(-(10**18), 10**18) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
TYPES = st.sampled_from(["string", "number", "integer", "boolean", "null", "array", "object"])


def _strange(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {},
        optional={
            "type": TYPES,
            "minimum": NUMBERS,
            "exclusiveMaximum": NUMBERS,
            "multipleOf": NUMBERS,
            "minLength": NUMBERS,
            "pattern": TEXT,
            "format": TEXT,
            "minItems": NUMBERS,
            "uniqueItems": st.booleans(),
            "const": VALUES,
            "enum": st.lists(VALUES, max_size=3),
            "required": st.lists(NAMES, max_size=3),
            "properties": st.dictionaries(NAMES, inner, max_size=3),
            "additionalProperties": inner,
            "items": inner,
            "contains": inner,
            "title": TEXT,
        },
    )


strange: st.SearchStrategy[dict[str, Any]] = _strange(
    st.recursive(st.booleans() | _strange(st.nothing()), _strange, max_leaves=4)
)
"""Schemas that no benchmark has: any keyword beside any type, any name, any text."""
