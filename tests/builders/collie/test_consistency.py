"""Structures that no text can satisfy are refused, and only these."""

from typing import Any

import pytest

from harness.builders.collie.consistency import refuse_impossible
from harness.builders.collie.structure import PAPER, find_structures, read_structure
from harness.errors import DataInvalid


def words(relation: str, **more: Any) -> dict[str, Any]:
    return {
        "target_level": "word", "transformation": {"op": "count"}, "relation": relation, **more
    }  # fmt: skip


def structure(logic: str, *parts: tuple[dict[str, Any], Any]) -> dict[str, Any]:
    return {
        "name": "s",
        "level": "sentence",
        "constraint": {"logic": logic, "constraints": [one for one, _ in parts]},
        "targets": [rule for _, rule in parts],
    }


AT = {"target_level": "word", "transformation": {"op": "position", "index": 0}, "relation": "=="}
SWEPT = {**AT, "transformation": {"op": "position", "index": {"sweep": [0, 9]}}}


@pytest.mark.parametrize(
    "raw",
    [
        structure("all", (words(">="), 20), (words("<="), 5)),
        structure("and", (words(">="), {"sweep": {"from": 20, "to": 30}}), (words("<"), 20)),
        structure("all", (AT, {"sweep": ["snow", "rain"]}), (AT, "sun")),
    ],
    ids=range(3),
)
def test_what_contradicts_itself_whatever_is_taken(raw: dict[str, Any]) -> None:
    with pytest.raises(DataInvalid, match="No text can satisfy the structure s: contradictory: "):
        refuse_impossible(read_structure(raw))


@pytest.mark.parametrize(
    "raw",
    [
        structure("all", (words(">="), {"sweep": [5, 20]}), (words("<="), 5)),
        structure("or", (words(">="), 20), (words("<="), 5)),
        structure("all", (words(">="), {"take": "value"}), (words("<="), 0)),
        structure("all", (SWEPT, "snow"), (words("=="), 5)),
    ],
    ids=range(4),
)
def test_what_may_be_satisfied(raw: dict[str, Any]) -> None:
    refuse_impossible(read_structure(raw))


def test_the_papers_are_possible() -> None:
    for found in find_structures([PAPER]):
        refuse_impossible(found)
