"""The last word of each judge on each text, found in the file."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import DataInvalid
from harness.store.json_lines import JsonLinesWriter
from harness.store.judgement_index import JudgementIndex
from harness.store.judgements import Register, RegisteredJudge, write_register
from tests.store.test_judgements import judgement

names = st.tuples(
    st.sampled_from("jk"), st.sampled_from("ab"), st.integers(0, 1), st.integers(1, 2)
)


def registered(folder: Path) -> None:
    judges = {name: RegisteredJudge({}) for name in "jk"}
    write_register(folder, Register(judged=("ok",), judges=judges))


@given(st.lists(st.tuples(names, st.sampled_from(["old", "new"])), max_size=30))
def test_the_last_line_of_each_judge_counts(
    tmp_path_factory: pytest.TempPathFactory, said: list[tuple[tuple[str, str, int, int], str]]
) -> None:
    folder = tmp_path_factory.mktemp("run")
    registered(folder)
    last: dict[tuple[str, int, int, str], dict[str, float]] = {}
    with JsonLinesWriter(folder / "judgements.jsonl") as writer:
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
            key = (instance, sample, round_, text)
            last.setdefault(key, {})[judge] = float(when)
    places = JudgementIndex(folder)
    for key, expected in last.items():
        found = places.of(*key)
        assert {judge: one.started_at for judge, one in found.items()} == expected
    assert places.of("a", 0, 1, "neither") == {}


def test_a_run_without_judgements_has_none(tmp_path: Path) -> None:
    assert JudgementIndex(tmp_path).of("a", 0, 1, "x") == {}


def test_a_line_that_is_damaged_or_becomes_so_is_named(tmp_path: Path) -> None:
    registered(tmp_path)
    with JsonLinesWriter(tmp_path / "judgements.jsonl") as writer:
        writer.append(judgement("a"))
        writer.append(judgement("b"))
    path = tmp_path / "judgements.jsonl"
    places = JudgementIndex(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b'"instance":"b"', b'"instance":5  '))
    with pytest.raises(DataInvalid, match="line 2: not a judgement"):
        places.of("b", 0, 1, "an answer")
    with pytest.raises(DataInvalid, match="line 2: not a judgement"):
        JudgementIndex(tmp_path)
