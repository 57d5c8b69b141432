"""Inspect's logs as runs, and runs as logs that Inspect's own library reads.

Skipped without inspect-ai; scripts/test-exchange installs it.
"""

import json
import os
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from msgspec.structs import replace

from harness.analysis.summary import compute_metrics
from harness.errors import ConfigError, DataInvalid, DataMissing
from harness.plugins.exchange import inspect_import
from harness.plugins.exchange.exported_run import exported_run
from harness.plugins.exchange.imported_run import write_run
from harness.plugins.exchange.inspect_export import write_inspect
from harness.plugins.exchange.inspect_import import read_inspect
from harness.plugins.mock.server import MockServer
from harness.records import Attempt, Score
from harness.store.index import AttemptIndex
from harness.store.run_folder import RunFolder
from tests.cli.command import harness
from tests.columns import read_columns
from tests.plugins.exchange.made import attempt, attempts, whole_run

inspect_log = pytest.importorskip("inspect_ai.log")

RECORDED = Path(__file__).parent / "recorded"


def stored(folder: RunFolder) -> list[Attempt]:
    return list(AttemptIndex(folder.attempts).read(Attempt))


def there_and_back(tmp: Path, suffix: str, found: list[Attempt]) -> tuple[RunFolder, RunFolder]:
    folder = whole_run(tmp / "runs", "made", found)
    path = tmp / f"made{suffix}"
    write_inspect(exported_run(folder), path)
    return folder, write_run(tmp / "runs", "again", path, read_inspect(path))


@settings(max_examples=8, deadline=None)
@given(attempts().filter(bool))
@pytest.mark.parametrize("suffix", [".eval", ".json"])
def test_a_run_that_is_exported_and_imported_is_equal(suffix: str, found: list[Attempt]) -> None:
    with tempfile.TemporaryDirectory() as tmp:
        before, after = there_and_back(Path(tmp), suffix, found)
        assert stored(after) == stored(before)
        assert after.read_config() == before.read_config()
        manifests = after.read_manifest(), before.read_manifest()
        for key in ("task", "model", "fingerprint", "started_at", "owed"):
            assert manifests[0][key] == manifests[1][key]
        calls = read_columns(before.attempts)[1]  # another tool has made those of the import
        assert read_columns(after.attempts)[1] == replace(calls, n_cached_calls=0)
        assert compute_metrics(after).overall == compute_metrics(before).overall


@pytest.mark.parametrize("suffix", [".eval", ".json"])
def test_logs_that_inspect_reads(suffix: str, tmp_path: Path) -> None:
    found = [
        attempt("a/1", 0, 1, passed=False, text="no", feedback="Wrong.", scores={}),
        attempt("a/1", 0, 2, scores={"exact": Score(True, True), "f1": Score(0.25, reason="so")}),
        attempt("a/1", 1, text=None, passed=None, outcome="error", scores={}, error="down"),
        attempt("a/../../b", 0, text="<script> \0 🙂 \ufeff", reasoning="hm"),
    ]
    there_and_back(tmp_path, suffix, found)
    path = tmp_path / f"made{suffix}"
    log = inspect_log.read_eval_log(path)
    first, second, third = sorted(log.samples, key=lambda one: (one.id != "a/1", one.epoch))
    asked = ("user", "Do a/1.")
    assert [(turn.role, turn.text) for turn in first.messages] == [
        *(asked, ("assistant", "no"), ("user", "Wrong."), ("assistant", "done"))
    ]
    values = {name: score.value for name, score in first.scores.items()}
    assert values == {"exact": "C", "f1": 0.25, "passed": "C"}
    assert first.scores["f1"].explanation == "so"
    assert (second.id, second.epoch, second.scores) == ("a/1", 2, {})
    assert second.error.message == "down"
    assert "<script>" in third.output.completion
    assert inspect_log.read_eval_log_sample(path, third.id, 1).output == third.output
    assert len(inspect_log.read_eval_log_sample_summaries(path)) == 3
    (score,) = (one for one in log.results.scores if one.name == "passed")
    assert score.metrics["pass_rate"].value == 1.0
    assert (score.scored_samples, score.unscored_samples) == (2, 1)
    assert "host" not in log.model_dump_json()


def test_an_exported_log_that_was_tampered_with(tmp_path: Path) -> None:
    there_and_back(tmp_path, ".json", [attempt("a")])
    tree = json.loads((tmp_path / "made.json").read_text())
    tree["samples"][0]["metadata"]["harness"]["attempts"][0]["round"] = 0
    broken = tmp_path / "broken.json"
    broken.write_text(json.dumps(tree))
    with pytest.raises(DataInvalid, match=r"broken\.json, sample 'a', epoch 1: not a valid"):
        write_run(tmp_path / "runs", "x", broken, read_inspect(broken))
    assert sorted(one.name for one in (tmp_path / "runs").iterdir()) == ["again", "made"]


def sample(name: Any = 1, epoch: int = 1, said: str = "yes", **changes: Any) -> dict[str, Any]:
    made: dict[str, Any] = {
        "id": name,
        "epoch": epoch,
        "input": f"Is it {name}?",
        "target": "yes",
        "messages": [
            {"role": "system", "content": "Be terse."},
            {"role": "user", "content": f"Is it {name}?"},
            {"role": "assistant", "content": said},
        ],
        "output": {
            "model": "x/y",
            "choices": [{"message": {"role": "assistant", "content": said}, "stop_reason": "stop"}],
            "completion": said,
        },
        "scores": {"match": {"value": "C"}},
        "metadata": {},
    }
    return made | changes


SPEC = {
    "created": "2026-01-02T03:04:05+00:00",
    "task": "t",
    "model": "x/y",
    "dataset": {},
    "config": {},
}


def log(path: Path, *samples: Any, **changes: Any) -> Path:
    tree = {
        "version": 2,
        "status": "success",
        "eval": SPEC,
        "samples": samples,
    }
    path.write_text(json.dumps(tree | changes))
    return path


def imported(path: Path, **wanted: str) -> tuple[RunFolder, list[Attempt]]:
    folder = write_run(path.parent / "runs", "x", path, read_inspect(path, **wanted))
    return folder, stored(folder)


def scored(tmp_path: Path, *values: Any, **wanted: str) -> list[Attempt]:
    samples = [sample(n, scores={"s": {"value": value}}) for n, value in enumerate(values)]
    return imported(log(tmp_path / "l.json", *samples), **wanted)[1]


@pytest.mark.parametrize("suffix", ["eval", "json"])
def test_a_log_that_inspect_wrote(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"sums.{suffix}"
    path.write_bytes((RECORDED / f"inspect_sums.{suffix}").read_bytes())
    folder, found = imported(path)
    metrics = compute_metrics(folder)
    assert metrics.overall.pass_rate == pytest.approx(2 / 3)  # Inspect: accuracy 0.666…
    assert metrics.overall.stderr == pytest.approx(1 / 3)
    assert metrics.scores["length"].mean == pytest.approx(1 / 3)
    assert metrics.scores["multi.a"].mean == 1.5
    assert metrics.scores["multi.b"].mean == 1.0
    assert (metrics.n_instances, metrics.n_samples, metrics.simulated) == (3, 6, True)
    assert set(metrics.groups) == {"parity"}
    assert folder.read_config().decoding.max_tokens == 10
    one = found[0]
    assert (one.instance, one.sample, one.text, one.passed) == ("s2", 0, "4", True)
    assert [turn["role"] for turn in one.request["messages"]] == ["system", "user"]
    assert one.usage is not None
    assert one.usage.input_tokens == 5
    assert one.scores["match"].details["answer"] == "4"
    assert len({attempt.call_id for attempt in found}) == 6


VALUES: list[tuple[Any, float | None, bool | None]] = [
    *[("C", 1, True), ("I", 0, False), ("N", 0, False), (True, 1, True), (False, 0, False)],
    *[("P", 0.5, False), ("yes", 1, True), ("No", 0, False), (1, 1, True), (0.0, 0, False)],
    *[
        ("1", 1, True),
        (0.75, 0.75, None),
        ("3.5", 3.5, None),
    ],
    *[(float("nan"), None, None), ("good", None, None), ([1], None, None)],
]


@pytest.mark.parametrize(("value", "means", "passed"), VALUES)
def test_the_meaning_of_values(value: Any, means: Any, passed: Any, tmp_path: Path) -> None:
    (found,) = scored(tmp_path, value)
    assert (found.scores["s"].value, found.passed) == (means, passed)


def test_a_number_among_zeros_and_ones_makes_the_score_a_measure(tmp_path: Path) -> None:
    assert [one.passed for one in scored(tmp_path, 1, 0, 0.5)] == [None] * 3
    assert RunFolder(tmp_path / "runs", "x").read_manifest()["measure"] == "s"


def test_a_partly_correct_answer_has_not_passed_and_counts_half(tmp_path: Path) -> None:
    assert [one.passed for one in scored(tmp_path, "C", "P", "I")] == [True, False, False]
    folder = RunFolder(tmp_path / "runs", "x")
    assert folder.read_manifest()["measure"] == "s"
    assert compute_metrics(folder).scores["s"].mean == 0.5


def test_zeros_and_ones_that_are_not_an_accuracy(tmp_path: Path) -> None:
    mean = {"name": "mean", "value": 1}
    results = {"scores": [{"name": "s", "scorer": "s", "metrics": {"mean": mean}}]}
    path = log(tmp_path / "l.json", sample(scores={"s": {"value": 1}}), results=results)
    assert imported(path)[1][0].passed is None
    (tmp_path / "runs" / "x").rename(tmp_path / "before")
    assert imported(path, score="s")[1][0].passed is True


def test_which_score_decides(tmp_path: Path) -> None:
    both = {"length": {"value": 0.25}, "a": {"value": "I"}, "b": {"value": "C"}}
    path = log(tmp_path / "l.json", sample(scores=both))
    assert imported(path)[1][0].passed is False
    (tmp_path / "runs" / "x").rename(tmp_path / "before")
    assert imported(path, score="b")[1][0].passed is True
    with pytest.raises(ConfigError, match="no score 'c'"):
        read_inspect(path, score="c")


ERROR = {"message": "down", "traceback": "", "traceback_ansi": ""}


def test_errors_and_missing_samples_are_not_judged(tmp_path: Path) -> None:
    failed = sample("b", scores={"match": {"value": "I"}}, error=ERROR)
    spec = SPEC | {"dataset": {"sample_ids": ["a", "b", "c"]}}
    path = log(tmp_path / "l.json", sample("a"), failed, eval=spec)
    folder, found = imported(path)
    assert [(one.instance, one.outcome, one.passed) for one in found] == [
        ("a", "ok", True),
        ("b", "error", None),
        ("c", "error", None),
    ]
    overall = compute_metrics(folder).overall
    assert (overall.pass_rate, overall.n, overall.not_judged) == (1.0, 1, 2)
    assert len(read_inspect(path).notes) == 2


KEY = "0123456789abcdef" * 2


def test_outcomes_reasoning_and_tools(tmp_path: Path) -> None:
    cut = sample("cut")
    cut["output"]["choices"][0]["stop_reason"] = "max_tokens"
    content = [
        {"type": "reasoning", "reasoning": "hm"},
        {"type": "text", "text": "an answer"},
        {"type": "image", "image": "data:"},
    ]
    thought = sample("thought", attachments={KEY: "a long text"})
    thought["messages"][1]["content"] = f"attachment://{KEY}"
    thought["output"]["choices"][0]["message"]["content"] = content
    thought["messages"].insert(2, {"role": "tool", "content": "42"})
    found = {
        one.instance: one
        for one in imported(log(tmp_path / "l.json", cut, thought, sample("none", said=" ")))[1]
    }
    assert [found[name].outcome for name in ("cut", "thought", "none")] == [
        "truncated",
        "ok",
        "empty",
    ]
    assert (found["thought"].text, found["thought"].reasoning) == ("an answer\n[image]", "hm")
    assert found["thought"].request["messages"][1]["content"] == "a long text"
    assert found["thought"].request["messages"][-1] == {"role": "user", "content": "42"}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"id": None}, "not a readable Inspect log"),
        ({"epoch": 0}, "sample '1', epoch 0: a sample needs an id, and an epoch from 1"),
        ({"epoch": 2**40}, "a sample needs an id, and an epoch from 1"),
        ({"scores": {"s": {"value": 1e300}}}, "sample '1', epoch 1: a number that is too large"),
    ],
)
def test_broken_samples(changes: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(DataInvalid, match=said):
        imported(log(tmp_path / "l.json", sample(**changes)))
    assert not (tmp_path / "runs").exists() or not list((tmp_path / "runs").iterdir())


@pytest.mark.parametrize("shape", [None, 1, "x", [], {}, [[]], {"a": [{}]}])
def test_any_shape_is_an_import_or_an_error(shape: Any, tmp_path: Path) -> None:
    parts = [{"samples": [sample(**{key: shape})]} for key in sample()]
    parts += [{key: shape} for key in ("eval", "plan", "results", "stats", "samples")]
    for number, changes in enumerate(parts):
        try:
            imported(log(tmp_path / "l.json", sample(), **changes))
            (tmp_path / "runs" / "x").rename(tmp_path / f"run-{number}")
        except DataInvalid:
            assert not (tmp_path / "runs" / "x").exists()


def packed(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        for name, content in members.items():
            out.writestr(name, content)
    return path


def header(**changes: Any) -> bytes:
    return json.dumps({"version": 2, "eval": SPEC | changes}).encode()


def test_names_in_a_zip_are_not_paths(tmp_path: Path) -> None:
    there_and_back(tmp_path / "made", ".eval", [attempt("../../up")])
    assert sorted(one.name for one in tmp_path.iterdir()) == ["made"]


def test_zips_that_unpack_to_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspect_import, "MAX_BYTES", 100_000)
    bomb = b'{"id": 1, "x": "' + b"a" * 200_000 + b'"}'
    path = packed(tmp_path / "l.eval", {"header.json": header(), "samples/1_epoch_1.json": bomb})
    with pytest.raises(DataInvalid, match=r"samples/1_epoch_1\.json: more than 100,000 bytes"):
        imported(path)
    monkeypatch.setattr(inspect_import, "MAX_UNPACKED", 1000)
    with pytest.raises(DataInvalid, match="more than 1,000 bytes when unpacked"):
        read_inspect(packed(tmp_path / "m.eval", {"header.json": header(), "x": b"a" * 2000}))


def test_broken_zips(tmp_path: Path) -> None:
    good = (RECORDED / "inspect_sums.eval").read_bytes()
    path = tmp_path / "l.eval"
    for end in (4, 100, len(good) // 2, len(good) - 10):
        path.write_bytes(good[:end])
        with pytest.raises(DataInvalid, match=r"l\.eval"):
            imported(path)
    for place in range(60, len(good), 1997):  # a bit flipped here and there: an error or no harm
        content = bytearray(good)
        content[place] ^= 0x55
        path.write_bytes(content)
        try:
            folder, _ = imported(path)
            folder.path.rename(tmp_path / f"flipped-{place}")
        except DataInvalid:
            pass
    assert not (tmp_path / "runs" / "x").exists()


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"\xff\xfe", b"[" * 100_000, b'{"eval": 1' + b"0" * 5000, b"PK\x03\x04"],
)
def test_a_file_that_is_not_a_log(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "l.json"
    path.write_bytes(content)
    with pytest.raises(DataInvalid, match=r"l\.json"):
        imported(path)


def test_a_path_that_is_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(DataMissing):
        read_inspect(tmp_path / "none")
    with pytest.raises(DataInvalid, match="not a file"):
        read_inspect(tmp_path)


@pytest.mark.parametrize("names", [("a", "a"), (1, "1")])
def test_a_sample_that_occurs_twice(names: tuple[Any, Any], tmp_path: Path) -> None:
    twice = [sample(name, said=said) for name, said in zip(names, ("yes", "no"), strict=True)]
    with pytest.raises(DataInvalid, match="occurs twice"):
        imported(log(tmp_path / "twice.json", *twice))
    assert not (tmp_path / "runs" / "x").exists()


def test_a_header_that_names_more_samples_than_there_can_be(tmp_path: Path) -> None:
    spec = SPEC | {"dataset": {"sample_ids": list(range(20_000))}, "config": {"epochs": 5_000}}
    with pytest.raises(DataInvalid, match="names 20,000 samples of 5,000 epochs but holds 1"):
        imported(log(tmp_path / "many.json", sample(0), eval=spec))


def test_a_scripted_conversation_is_a_log_with_every_turn(tmp_path: Path) -> None:
    turns: list[Any] = ["One.", {"content": "Two.", "checks": ["exact_match"], "target": "x"}, "3."]
    rows = tmp_path / "rows.jsonl"
    row = {"id": "talk", "turns": turns, "checks": ["exact_match"]}
    rows.write_text(json.dumps(row | {"target": "Heard: 3."}))
    file = tmp_path / "talk.yaml"
    log = tmp_path / "talk.eval"
    with MockServer(answers=lambda ask, _: f"Heard: {ask.prompt}") as server:
        model = {"backend": "openai", "name": "m", "base_url": server.base_url}
        file.write_text(json.dumps({"task": {"name": "jsonl", "path": str(rows)}, "model": model}))
        for command in ("run", file), ("export", "talk", "--output", log):
            ended = harness(*command)
            assert ended.returncode == 0, ended.stderr
    (sample,) = inspect_log.read_eval_log(log).samples
    assert [(turn.role, turn.text) for turn in sample.messages] == [
        *[("user", "One."), ("assistant", "Heard: One."), ("user", "Two.")],
        *[("assistant", "Heard: Two."), ("user", "3."), ("assistant", "Heard: 3.")],
    ]
    assert sample.output.completion == "Heard: 3."
    values = {name: score.value for name, score in sample.scores.items()}
    assert values == {"exact_match": "C", "passed": "I"}  # the second turn failed its check
    assert harness("import", log, "--name", "back").returncode == 0
    runs = Path(os.environ["HARNESS_RUNS_DIR"])
    found = [stored(RunFolder(runs, name)) for name in ("talk", "back")]
    assert found[0] == found[1]
