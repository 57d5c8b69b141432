"""Evaluations without a run file in a program."""

import inspect
from pathlib import Path
from typing import Any

import pandas
import pytest

import harness
from harness.errors import ConfigError
from tests.conftest import ROOT, Sums
from tests.rows import WORDS
from tests.test_api import APP, ECHO, at_most, check_signature

pytestmark = pytest.mark.usefixtures("program_folder")


def test_benchmarks_by_name_are_evaluated_as_by_the_command() -> None:
    words, example = WORDS["path"], str(ROOT / "harness/tasks/example.jsonl")
    rows = {"task.prompt": "Write: {{ target }}.", "task.checks": "exact_match"}
    one = harness.evaluate(words, "simulated/0.8", overrides=rows, limit=2, progress=False)
    assert one.run.name == "eval.words.simulated-0.8"
    assert one.run.metrics.n_samples == 2
    assert list(one.to_frame()["value"]) == [one.run.metrics.pass_rate]
    models = ["simulated/0.8", "simulated/0.2"]
    both = harness.evaluate(
        [words, example],
        models,
        overrides={"samples": 2, **rows},
        limit=4,
        name="two",
        progress=False,
    )
    assert [*both.runs] == [
        f"{task}.simulated-{accuracy}" for task in ("words", "example") for accuracy in (0.8, 0.2)
    ]
    assert all(run.metrics.n_samples == 8 for run in both.runs.values())
    results = both.to_frame()
    assert [*results["benchmark"]] == ["jsonl:words", "jsonl:example"] * 2
    assert [*results.columns] == [
        "model",
        "benchmark",
        "score",
        "value",
        "ci95_low",
        "ci95_high",
        "n",
    ]
    differences = both.to_frame("differences")
    assert [*differences["benchmark"]] == ["jsonl:words", "jsonl:example"]
    assert all(differences["p_adjusted"] >= differences["p_value"])
    assert len(both.to_frame("ranks")) == 2
    samples = both.to_frame("samples")
    assert [*samples.groupby("run").size()] == [8] * 4
    assert len(both.to_frame("attempts")) == sum(len(run.attempts()) for run in both.runs.values())
    with pytest.raises(ConfigError, match="Did you mean 'samples'"):
        both.to_frame("sample")  # type: ignore[arg-type]
    assert "average rank" in repr(both)
    assert "<pre" in both._repr_html_()
    with pytest.raises(ConfigError, match="There are 4 runs"):
        _ = both.run
    command = Path("runs/two.yaml").read_text().partition("\n")[0]
    assert command.startswith(
        f"# harness eval {words},{example} --model simulated/0.8,simulated/0.2"
    )
    assert "-o samples=2" in command
    with pytest.raises(
        ConfigError, match=r"no task named 'gsm8k'\. Valid names: .*harness eval FILE\.jsonl"
    ):
        harness.evaluate("gsm8k", "simulated/0.8")


def test_a_registered_class_is_evaluated() -> None:
    rows = [{"prompt": "a", "target": "a"}, {"prompt": "b", "target": "B"}]
    scope: dict[str, Any] = {}
    exec(ECHO, scope)
    harness.backend(scope["EchoBackend"])
    task = {"rows": rows, "checks": "exact_match"}
    evaluation = harness.evaluate(task, "echo", progress=False)
    assert evaluation.run.metrics.pass_rate == 0.5
    assert not evaluation.run.metrics.simulated


def test_a_misspelt_option_is_refused_before_anything_is_run() -> None:
    with pytest.raises(TypeError, match=r"has no option 'lmit'. Did you mean 'limit'\?"):
        harness.evaluate("jsonl", "simulated", lmit=5)
    assert not Path("runs").exists()


def test_the_options_are_in_the_signature() -> None:
    assert "budget" in inspect.signature(harness.evaluate).parameters
    check_signature(harness.evaluate)


def test_two_functions_of_one_name_are_refused_in_one_call() -> None:
    row = {"rows": [{"prompt": "a", "target": "yes"}]}
    tasks = [{**row, "checks": [at_most(length)]} for length in (50, 1)]
    with pytest.raises(ConfigError, match="named 'short'"):
        harness.evaluate(tasks, "simulated", progress=False)


def test_own_rows_and_checks_are_evaluated_on_several_models() -> None:
    def polite(text: str) -> bool:
        return text.startswith("yes")

    rows = [{"prompt": "a", "target": "yes"}, {"prompt": "b", "target": "yes, please"}]
    with pytest.raises(ConfigError, match="neither a name nor rows") as raised:
        harness.evaluate(rows, "simulated")
    assert '{"rows": rows' in raised.value.remedy
    with pytest.raises(ConfigError, match="of the type 'DataFrame'") as raised:
        harness.evaluate(pandas.DataFrame(rows), "simulated")
    assert '{"rows": frame.to_dict("records")' in raised.value.remedy
    alone = harness.evaluate(
        {"rows": rows, "checks": polite}, "simulated/1", name="alone", progress=False
    )
    assert [*alone.run.metrics.scores] == ["polite"]
    own = {"rows": rows, "checks": ["exact_match", polite]}
    models = ["simulated/1", "simulated/0"]
    found = harness.evaluate([own, WORDS | {"as": "words"}], models, limit=2, progress=False)
    assert [run.metrics.pass_rate for run in found.runs.values()][:2] == [1, 0]
    assert [*found.to_frame()["benchmark"]] == ["jsonl", "jsonl:words"] * 2
    assert "harness eval" not in Path("runs/eval.yaml").read_text().partition("\n")[0]


def test_several_tasks_of_ones_own_in_one_evaluation() -> None:
    first = {"rows": [{"prompt": "a", "target": "yes"}], "checks": "exact_match"}
    other = {"rows": [{"prompt": "b", "target": "no"}], "checks": "contains"}

    @harness.task
    class SumsTask(Sums):
        pass

    found = harness.evaluate(
        [first, other, {**other, "as": "short"}, "sums"], "simulated/1", progress=False
    )
    names = ["jsonl", "jsonl-2", "short", "sums"]
    assert [*found.runs] == [f"{name}.simulated-1" for name in names]
    assert [run.name for run in found.runs.values()] == [f"eval.{one}" for one in found.runs]
    benchmarks = ["jsonl", "jsonl:jsonl-2", "jsonl:short", "sums"]
    assert [*found.to_frame()["benchmark"]] == benchmarks
    again = harness.run_all("runs/eval.yaml", name="eval", progress=False)
    assert [*again] == [*found.runs]


def test_evaluate_sets_no_limit_that_ones_own_backend_does_not_accept(tmp_path: Path) -> None:
    (tmp_path / "own_app.py").write_text(APP)
    task = {"rows": [{"prompt": "a", "target": "a"}], "checks": "exact_match"}
    found = harness.evaluate(task, ["./own_app.py", "simulated/1.0"], progress=False)
    assert found.runs["jsonl.own_app"].config.decoding.max_tokens is None
    assert found.runs["jsonl.own_app"].metrics.pass_rate == 1
    assert found.runs["jsonl.simulated-1.0"].config.decoding.max_tokens == 2048
    limited = {"task": {"name": "jsonl", **task}, "model": {"backend": "./own_app.py"}}
    with pytest.raises(ConfigError, match=r"does not accept decoding.top_p\. Remove it, or"):
        harness.run({**limited, "decoding": {"top_p": 0.5}}, progress=False)
