"""Measures of plug-ins within the grammar; those of the example package are tested with it."""

from pathlib import Path
from typing import Any

import pytest

from harness.errors import ConfigError, DataInvalid
from harness.scoring.constraints.check import check
from harness.scoring.constraints.form import read, write
from harness.scoring.constraints.grammar import Specification
from harness.scoring.constraints.measuring import fingerprints, measure
from harness.scoring.constraints.render import instruction
from tests.scoring.constraints.nltk_reference import own

CODE = """
class Longest:
    def number(self, units):
        return max(map(len, units), default=0)

    def phrase(self, units):
        return f"the length of the longest of the {units}"


class Broken(Longest):
    def number(self, units):
        return units[9]

    def phrase(self, units):
        return units["x"]
"""


@pytest.fixture(autouse=True)
def _installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package as pip would have installed it."""
    (tmp_path / "longest_measure.py").write_text(CODE)
    about = tmp_path / "longest_measure-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: longest-measure\nVersion: 1\n")
    (about / "entry_points.txt").write_text(
        "[harness.measures]\nlongest=longest_measure:Longest\nbroken=longest_measure:Broken\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    measure.cache_clear()


def asked(transformation: dict[str, Any], targets: Any, **more: Any) -> Specification:
    base = {"target_level": "word", "transformation": transformation, "relation": "<=", **more}
    return read({"level": "paragraph", "constraint": base, "targets": targets})


LONGEST = {"op": "measure", "name": "longest"}


def test_a_measure_is_checked_rendered_and_written() -> None:
    whole = asked(LONGEST, 6)
    assert read(write(whole)) == whole
    assert check(whole, "Snow fell softly.", own()).passed
    verdict = check(whole, "Snow overwhelmed us.", own())
    assert not verdict.passed
    assert verdict.findings[0].observed == 11
    assert instruction(whole) == (
        "Please generate a paragraph with the length of the longest of the words to be at most 6."
    )
    assert [name for name, _ in fingerprints(whole)] == ["longest"]


def test_a_measure_that_fails_is_named() -> None:
    whole = asked({"op": "measure", "name": "broken"}, 6)
    with pytest.raises(ConfigError, match=r"The measure 'broken' fails \(IndexError"):
        check(whole, "Snow fell.", own())
    with pytest.raises(ConfigError, match=r"The measure 'broken' fails \(TypeError"):
        instruction(whole)


def test_a_measure_of_each_sentence() -> None:
    each = asked({"op": "for_each", "do": LONGEST}, 6, input_level="sentence", reduction="all")
    assert check(each, "Snow fell. It melted.", own()).findings[0].observed == (4, 6)
    assert check(asked(LONGEST, 0), "...", own()).findings[0].observed == 0
    [(name, digest)] = fingerprints(each)
    assert (name, len(digest)) == ("longest", 64)


@pytest.mark.parametrize(
    ("transformation", "more", "said"),
    [
        ({"op": "measure", "name": "longst"}, {}, "Did you mean 'longest'"),
        ({"op": "measure"}, {}, "name"),
        (LONGEST, {"input_level": "sentence"}, "needs single units"),
        ({"op": "for_each", "do": {"op": "for_each", "do": LONGEST}}, {}, "of a number|reduction"),
    ],
)
def test_mistakes_are_told(transformation: Any, more: dict[str, Any], said: str) -> None:
    with pytest.raises(DataInvalid) as told:
        asked(transformation, 3, **more)
    assert any(part in str(told.value) for part in said.split("|"))
