"""Samples in lm-eval's format: its own, exported ones, and hostile ones."""

import json
from pathlib import Path
from typing import Any

import pytest

from harness.analysis.summary import compute_metrics
from harness.errors import DataInvalid
from harness.plugins.exchange import lm_eval
from harness.plugins.exchange.imported_run import write_run
from harness.plugins.exchange.lm_eval import read_lm_eval
from harness.records import Attempt, Score
from harness.store.index import AttemptIndex
from harness.store.run_folder import RunFolder

RECORDED = Path(__file__).parent / "recorded"


def line(doc_id: Any = 0, **changes: Any) -> dict[str, Any]:
    made: dict[str, Any] = {
        "doc_id": doc_id,
        "doc": {"q": "?"},
        "target": "a",
        "arguments": {"gen_args_0": {"arg_0": f"Q{doc_id}", "arg_1": {"until": ["\n"]}}},
        "resps": [["a"]],
        "filtered_resps": ["a"],
        "filter": "none",
        "metrics": ["exact_match"],
        "doc_hash": f"doc {doc_id}",
        "target_hash": "t",
        "exact_match": 1.0,
    }
    return made | changes


def file(path: Path, *lines: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))
    return path


def imported(path: Path, **wanted: str) -> tuple[RunFolder, list[Attempt]]:
    folder = write_run(path.parent / "runs", "x", path, read_lm_eval(path, **wanted))
    return folder, list(AttemptIndex(folder.attempts).read(Attempt))


@pytest.mark.parametrize(
    ("task", "measured", "text"),
    [("tiny_sums", {"exact_match": 0.5}, "lol"), ("tiny_choice", {"acc": 0.75}, " 0")],
)
def test_samples_written_by_lm_eval(
    task: str, measured: dict[str, float], text: str, tmp_path: Path
) -> None:
    (recorded,) = RECORDED.glob(f"samples_{task}_*.jsonl")
    path = tmp_path / recorded.name
    path.write_bytes(recorded.read_bytes())
    folder, found = imported(path)
    metrics = compute_metrics(folder)
    assert metrics.task == task
    assert metrics.overall.pass_rate == next(iter(measured.values()))
    for name, value in measured.items():
        assert metrics.scores[name].mean == value
    assert (found[0].instance, found[0].text) == ("0", text)
    assert found[0].request["messages"] == [{"role": "user", "content": "Q: 0+0?\nA:"}]
    assert metrics.cost_usd is None


def test_several_readings_are_scores_of_one_attempt(tmp_path: Path) -> None:
    strict = [line(n, filter="strict", exact_match=float(n)) for n in (0, 1)]
    loose = [line(n, filter="loose", exact_match=1.0) for n in (0, 1)]
    path = file(tmp_path / "s.jsonl", *strict, *loose)
    _, found = imported(path)
    assert [one.passed for one in found] == [False, True]
    assert set(found[0].scores) == {"exact_match,strict", "exact_match,loose"}
    (tmp_path / "runs" / "x").rename(tmp_path / "before")
    assert [one.passed for one in imported(path, score="exact_match,loose")[1]] == [True, True]


def test_metrics_that_are_not_verdicts(tmp_path: Path) -> None:
    path = file(
        tmp_path / "s.jsonl",
        line(0, metrics=["rougeL", "inst"], rougeL=0.5, inst=[True, False]),
        line(1, metrics=["rougeL", "inst"], rougeL=1.0, inst=[True]),
    )
    folder, found = imported(path)
    assert [one.passed for one in found] == [None, None]
    assert folder.read_manifest()["measure"] == "rougeL"
    assert found[0].scores["inst"] == Score(None, details={"value": [True, False]})
    assert folder.read_manifest()["task"] == "imported"


def test_older_formats(tmp_path: Path) -> None:
    old = line(arguments=[["Q", {"until": []}]], acc="True")
    for key in ("metrics", "filter", "exact_match", "doc_hash"):
        del old[key]
    (found,) = imported(file(tmp_path / "s.jsonl", old))[1]
    assert (found.passed, found.text) == (True, "a")
    assert found.request["messages"] == [{"role": "user", "content": "Q"}]


def test_a_chat_becomes_turns(tmp_path: Path) -> None:
    turns = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    asked = {"gen_args_0": {"arg_0": json.dumps(turns), "arg_1": {}}}
    (found,) = imported(file(tmp_path / "s.jsonl", line(arguments=asked)))[1]
    assert found.request["messages"] == turns


def test_ids_shared_by_several_documents(tmp_path: Path) -> None:
    path = file(tmp_path / "s.jsonl", line(0), line(0, doc_hash="other"), line(1))
    names = [one.instance for one in imported(path)[1]]
    assert len(set(names)) == 3
    assert "1" in names
    assert all(name.startswith("0-") for name in names if name != "1")


def test_samples_that_an_earlier_version_exported(tmp_path: Path) -> None:
    doc = {"id": "a", "simulated": True}
    lines = [line(0, doc=doc, filter=f"sample-{k}", resps=[[f"answer {k}"]]) for k in (0, 1)]
    folder, found = imported(file(tmp_path / "s.jsonl", *lines))
    assert [(one.instance, one.sample, one.text) for one in found] == [
        ("0", 0, "answer 0"),
        ("0", 1, "answer 1"),
    ]
    assert folder.read_manifest()["simulated"] is True


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"doc_id": 1, "resps": [', "line 2: not JSON"),
        ('{"doc_id": 1}', "line 2: not a sample of lm-eval: it has no resps"),
        ('{"resps": []}', "line 2: not a sample of lm-eval: it has no doc_id"),
        ("[1]", "line 2: not a mapping"),
        ("[" * 100_000, "line 2: not JSON"),
        (json.dumps(line(1, exact_match=1e300)), "line 2: a number that is too large"),
        (json.dumps(line(x="y" * 2000)), "line 2: longer than 1,000 bytes"),
    ],
)
def test_broken_lines(
    text: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "longer" in said:
        monkeypatch.setattr(lm_eval, "MAX_BYTES", 1000)
    path = tmp_path / "s.jsonl"
    path.write_text(json.dumps(line()) + "\n" + text)
    with pytest.raises(DataInvalid, match=rf"s\.jsonl, {said}"):
        imported(path)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["s.jsonl"]


@pytest.mark.parametrize("shape", [None, 1, "x", [], {}, [[]], {"a": {}}, [[[1, 2]]], [None]])
def test_any_shape_is_an_import_or_an_error(shape: Any, tmp_path: Path) -> None:
    for key in line():
        try:
            imported(file(tmp_path / "s.jsonl", line(**{key: shape})))
            (tmp_path / "runs" / "x").rename(tmp_path / f"runs-{key}")
        except DataInvalid:
            pass


def test_a_document_that_occurs_twice(tmp_path: Path) -> None:
    twice = file(tmp_path / "s.jsonl", line(), line(1), line(0, exact_match=0.0))
    with pytest.raises(DataInvalid, match=r"line 3: the document '0' occurs twice"):
        imported(twice)


def test_an_infinite_metric_is_not_measured(tmp_path: Path) -> None:
    lines = [line(0, perplexity=2.0), line(1, perplexity=float("inf"))]
    for one in lines:
        one["metrics"] = ["exact_match", "perplexity"]
    folder, _ = imported(file(tmp_path / "s.jsonl", *lines))
    found = compute_metrics(folder).scores["perplexity"]
    assert (found.mean, found.n, found.not_measured) == (2.0, 1, 1)


@pytest.mark.parametrize(("effective", "n_missing"), [(2, 0), (5, 3), ("many", 0), (None, 0)])
def test_samples_that_were_cut_are_imported_as_incomplete(
    tmp_path: Path, effective: object, n_missing: int
) -> None:
    path = file(tmp_path / "samples_sums_2026-01-02T03-04-05.678.jsonl", line(0), line(1))
    results = {"n-samples": {"sums": {"original": 9, "effective": effective}}}
    (tmp_path / "results_2026-01-02T03-04-05.678.json").write_text(json.dumps(results))
    notes = read_lm_eval(path).notes
    assert [f"{2 + n_missing} were evaluated" in note for note in notes] == [True] * bool(n_missing)
    folder, _ = imported(path)
    assert folder.progress() == (not n_missing, 2 + n_missing)
    assert compute_metrics(folder).complete == (not n_missing)


@pytest.mark.parametrize(
    ("results", "said"),
    [
        ({"results": {"sums": {"exact_match,none": 0.9}}}, "0.5000 in the samples, and 0.9000 in"),
        ({"results": {"sums": {"exact_match": 0.9}}}, "0.5000 in the samples, and 0.9000 in"),
        ({"n-samples": {"sums": {"effective": 1}}}, "the results say that 1 were evaluated"),
        ({"results": {"sums": {"exact_match,none": 0.50001}}}, ""),
        ({"results": {"sums": {"exact_match,none": "N/A"}}}, ""),
        ({"results": [1], "n-samples": {"sums": {"effective": 2}}}, ""),
    ],
)
def test_results_that_contradict_their_samples_are_marked(
    tmp_path: Path, results: dict[str, Any], said: str
) -> None:
    lines = [line(0), line(1, exact_match=0.0)]
    path = file(tmp_path / "samples_sums_2026-01-02T03-04-05.678.jsonl", *lines)
    (tmp_path / "results_2026-01-02T03-04-05.678.json").write_text(json.dumps(results))
    assert [said in note for note in read_lm_eval(path).notes] == [True] * bool(said)
    folder, _ = imported(path)
    cautions = compute_metrics(folder).cautions
    assert [said in caution for caution in cautions] == [True] * bool(said)
