"""The last word of each judge on each text, found in the file."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import DataInvalid
from harness.store.judgement_places import JudgementPlaces
from harness.store.judgements import Judgement, JudgementWriter, text_hash
from tests.store.test_judgements import judgement

names = st.tuples(
    st.sampled_from("jk"), st.sampled_from("ab"), st.integers(0, 1), st.integers(1, 2)
)


@given(st.lists(st.tuples(names, st.sampled_from(["old", "new"])), max_size=30))
def test_the_last_line_of_each_judge_counts(
    tmp_path_factory: pytest.TempPathFactory, said: list[tuple[tuple[str, str, int, int], str]]
) -> None:
    folder = tmp_path_factory.mktemp("run")
    last: dict[tuple[str, int, int, str], dict[str, float]] = {}
    with JudgementWriter(folder) as writer:
        for when, ((judge, instance, sample, round_), text) in enumerate(said):
            writer.append(
                judgement(
                    instance,
                    *(None,),
                    judge=judge,
                    sample=sample,
                    round_=round_,
                    text=text,
                    started_at=float(when),
                )
            )
            key = (instance, sample, round_, text_hash(text))
            last.setdefault(key, {})[judge] = float(when)
    places = JudgementPlaces(folder, Judgement)
    for key, expected in last.items():
        found = places.of(*key)
        assert {judge: one.started_at for judge, one in found.items()} == expected
    assert places.of("a", 0, 1, text_hash("neither")) == {}


def test_a_run_without_judgements_has_none(tmp_path: Path) -> None:
    assert JudgementPlaces(tmp_path, Judgement).of("a", 0, 1, text_hash("x")) == {}


def test_a_line_that_is_damaged_or_becomes_so_is_named(tmp_path: Path) -> None:
    with JudgementWriter(tmp_path) as writer:
        writer.append(judgement("a"))
        writer.append(judgement("b"))
    path = tmp_path / "judgements.jsonl"
    places = JudgementPlaces(tmp_path, Judgement)
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b'"instance":"b"', b'"instance":5  '))
    with pytest.raises(DataInvalid, match="line 2: not a judgement"):
        places.of("b", 0, 1, text_hash("an answer"))
    with pytest.raises(DataInvalid, match="line 2: not a judgement"):
        JudgementPlaces(tmp_path, Judgement)
