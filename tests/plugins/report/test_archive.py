import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any

from msgspec import Struct

from harness.plugins.report import archive
from harness.plugins.report.archive import Selection, select, write_chunks
from harness.plugins.report.entries import LONGEST_TEXT
from harness.plugins.report.runs import ReportedRun
from harness.records import Score
from harness.store.columns import name_digest
from harness.store.index import AttemptLine
from tests.plugins.report.pages import compared, reported_run, two_runs
from tests.report.attempts import attempt


def packed(runs: list[ReportedRun]) -> tuple[dict[str, Any], list[list[Any]]]:
    """The index and the chunks."""
    told: list[str] = []
    comparison = compared(runs) if len(runs) > 1 else None
    selection = select([run.index for run in runs], None)
    index = write_chunks(runs, selection, comparison, told.append)
    blocks = [re.findall(">([^<]+)</script>", each)[0] for each in told]
    chunks = [json.loads(gzip.decompress(base64.b64decode(each))) for each in blocks]
    return json.loads(index), chunks


def test_the_index_has_a_row_for_each_attempt(tmp_path: Path) -> None:
    index, chunks = packed(two_runs(tmp_path))
    rows = index["rows"]
    first = {name: column[:6] for name, column in rows.items()}
    assert first["instance"] == [0] * 6
    assert first["sample"] == [0, 0, 0, 1, 1, 1]
    assert first["run"] == [0, 1, 1, 0, 1, 1]
    assert first["round"] == [1, 1, 2, 1, 1, 2]
    assert first["last"] == [1, 0, 1, 1, 0, 1]
    assert first["passed"] == [1, 0, 1, 1, 0, 1]
    assert first["snippet"][2] == "Answer sum/0, sample 0, round 2."
    assert index["instances"]["name"] == [f"sum/{number}" for number in range(6)]
    assert index["labels"] == [
        {"name": "shape", "groups": ["round", "square"], "of": [0, 1, 0, 1, 0, 1]}
    ]
    assert [len(entry["attempts"]) for entry in chunks[0]] == [6] * 6


def test_every_field_of_an_attempt_is_on_the_page_or_left_out_on_purpose(tmp_path: Path) -> None:
    full = attempt("a", reasoning="so", feedback="again", error="no", cached=True, turns=2)
    index, ((entry,),) = packed([reported_run(tmp_path, "r", [full])])
    shown = {*entry["attempts"][0], *index["rows"], "groups"}
    shown.add("user")  # as "played" and "ends"
    left_out = {"cluster", "started_at", "ended_at"}
    for name in AttemptLine.__struct_fields__:
        short = name.partition("_")[0]  # latency_s is the latency
        assert (short in shown) != (name in left_out), name


def test_the_index_says_where_runs_differ(tmp_path: Path) -> None:
    (change,) = packed(two_runs(tmp_path))[0]["changes"]
    assert (change["baseline"], change["run"]) == (0, 1)
    assert (sorted(change["better"]), change["worse"]) == ([4, 5], [2])


def test_the_index_says_which_runs_were_recorded_and_what_is_compared(tmp_path: Path) -> None:
    manifest = {"backend": "replay"}
    runs = [
        reported_run(tmp_path / "a", "a", [attempt("x")], manifest=manifest),
        reported_run(tmp_path / "b", "b", [attempt("x")]),
    ]
    index, _ = packed(runs)
    assert [run["recorded"] for run in index["runs"]] == [True, False]
    assert index["compared"] == {"round": None}
    assert packed(runs[:1])[0]["compared"] is None


def test_a_prompt_is_there_once(tmp_path: Path) -> None:
    same = [attempt("a", sample, prompt="one") for sample in range(3)]
    other = [attempt("a", prompt="two"), attempt("a", 0, 2)]
    runs = [reported_run(tmp_path / str(at), str(at), one) for at, one in enumerate([same, other])]
    entry = packed(runs)[1][0][0]
    assert entry["prompts"] == [[["user", "one"]], [["user", "two"]]]
    assert [each.get("prompt") for each in entry["attempts"]] == [0, 1, None, 0, 0]


def test_chunks_are_of_whole_instances(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(archive, "CHUNK_BYTES", 1_000)
    run = reported_run(tmp_path, "run", [attempt(f"sum/{number}") for number in range(9)])
    index, chunks = packed([run])
    assert 1 < len(chunks) < 9
    for name, chunk, place in zip(*index["instances"].values(), strict=True):
        assert chunks[chunk][place]["attempts"][0]["text"].startswith(f"Answer {name},")


def test_a_long_text_is_cut_and_says_so(tmp_path: Path) -> None:
    long = "x" * (LONGEST_TEXT + 1)
    score = Score(1.0, None, long, {"constraints": [{"constraint": long, "observed": [long]}]})
    line = attempt("a", text=long, prompt=long, feedback=long, error=long, scores={"s": score})
    entry = packed([reported_run(tmp_path, "run", [line])])[1][0][0]
    cut = {"text": "x" * LONGEST_TEXT, "length": LONGEST_TEXT + 1}
    told = entry["attempts"][0]
    assert entry["prompts"] == [[["user", cut]]]
    assert [told[name] for name in ("text", "feedback", "error")] == [cut] * 3
    assert told["scores"][0]["reason"] == cut
    assert told["scores"][0]["constraints"] == [[cut, None, cut, "", ""]]


def test_details_that_are_no_constraints_are_told_as_they_are(tmp_path: Path) -> None:
    details = {"constraints": "none", "why": {"a": [1, None]}}
    line = attempt("a", scores={"judge": Score(None, None, "", details)})
    (score,) = packed([reported_run(tmp_path, "run", [line])])[1][0][0]["attempts"][0]["scores"]
    assert score == {
        "name": "judge",
        "value": None,
        "details": '{"constraints":"none","why":{"a":[1,null]}}',
    }


class Name(Struct):
    instance: str
    sample: int
    round: int


def names(run: ReportedRun, selection: Selection, at: int) -> list[str]:
    lines = run.index.read(Name, selection.rows[at])
    return [f"{line.instance}.{line.sample}.{line.round}" for line in lines]


def test_instances_are_in_the_order_of_the_first_run(tmp_path: Path) -> None:
    first = [attempt("b"), attempt("a", 1), attempt("a", 0), attempt("a", 0, 2)]
    second = [attempt("c"), attempt("a"), attempt("b")]
    runs = [
        reported_run(tmp_path / str(at), str(at), each) for at, each in enumerate([first, second])
    ]
    found = select([run.index for run in runs], None)
    assert found.digest.tolist() == [name_digest(name) for name in "bac"]
    assert names(runs[0], found, 0) == ["b.0.1", "a.0.1", "a.0.2", "a.1.1"]
    assert names(runs[1], found, 1) == ["b.0.1", "a.0.1", "c.0.1"]
    assert [counts.tolist() for counts in found.counts] == [[1, 3, 0], [1, 1, 1]]


def test_whole_instances_are_left_out_by_their_digest_in_all_runs(tmp_path: Path) -> None:
    every = [str(number) for number in range(20)]
    two = [attempt(name, sample) for name in every for sample in range(2)]
    one = [attempt(name) for name in reversed(every)]
    runs = [reported_run(tmp_path / str(at), str(at), each) for at, each in enumerate([two, one])]
    found = select([run.index for run in runs], 11)
    kept = sorted(every, key=name_digest)[:5]
    assert names(runs[0], found, 0) == [f"{n}.{s}.1" for n in every if n in kept for s in range(2)]
    assert names(runs[1], found, 1) == [f"{n}.0.1" for n in every if n in kept]


def test_one_instance_is_there_in_any_case(tmp_path: Path) -> None:
    run = reported_run(tmp_path, "run", [attempt("a", sample) for sample in range(5)])
    assert len(select([run.index], 2).rows[0]) == 5


def test_a_run_of_no_attempts(tmp_path: Path) -> None:
    found = select([reported_run(tmp_path, "run", []).index], 10)
    assert len(found.digest) == 0
    assert len(found.rows[0]) == 0


def test_the_index_has_every_score_of_every_row(tmp_path: Path) -> None:
    both = {"exact": Score(True, True), "words": Score(2.0, None)}
    lines = [attempt("a", scores=both), attempt("b", scores={"exact": Score(None, None)})]
    other = [attempt("a", scores={"share": Score(1 / 3, None)})]
    runs = [reported_run(tmp_path / str(at), str(at), one) for at, one in enumerate([lines, other])]
    index, _ = packed(runs)
    assert index["rows"]["run"] == [0, 1, 0]
    assert index["scores"] == [
        {"name": "exact", "kind": "check", "verdict": True, "values": [1, None, None]},
        {"name": "words", "kind": "score", "verdict": False, "values": [2, None, None]},
        {"name": "share", "kind": "score", "verdict": False, "values": [None, 0.333333, None]},
    ]


def test_the_index_says_which_rows_fail_for_which_reason(tmp_path: Path) -> None:
    lines = [attempt("a", passed=False), attempt("b"), attempt("c", passed=False)]
    index, _ = packed([reported_run(tmp_path, "r", lines)])
    assert index["reasons"] == [
        {"text": "exact: a is wrong in round 1", "rows": [0]},
        {"text": "exact: c is wrong in round 1", "rows": [2]},
    ]


def test_an_attempt_says_what_was_sent_and_how_its_answer_was_found(tmp_path: Path) -> None:
    request = {"messages": [], "model": "m", "decoding": {"temperature": 0.5}, "seed": 0}
    extract = {"task.extract.regex": "is (.*)", "task.extract.take": "last"}
    settings = {"task.extract": extract}
    lines = [attempt("a", request=request)]
    told = packed([reported_run(tmp_path, "r", lines, settings=settings)])[1][0][0]["attempts"][0]
    assert json.loads(told["request"]) == {
        "model": "m",
        "decoding": {"temperature": 0.5},
        "seed": 0,
    }
    assert told["extraction"] == "regex: is (.*); take: last"
