"""The Python API: runs, comparisons and plug-ins in a program."""

import asyncio
import hashlib
import inspect
import json
import math
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import harness
from harness.engine.run_files import read_runs
from harness.errors import BudgetBroken, ConfigError, DataMissing, FatalCallError, RunConflict
from harness.plugins.mock.server import MockServer
from harness.records import Reply, Score, Usage
from harness.report.runs import runs_document
from harness.report.table import as_markdown
from harness.results import RunResult
from harness.store.run_folder import RunFolder
from tests.conftest import ROOT, Sums
from tests.rows import QUICKSTART, WORDS

QUICK = {"limit": 13, "progress": False}


pytestmark = pytest.mark.usefixtures("program_folder")


def file(checks: list[Any], **more: Any) -> dict[str, Any]:
    """A run file of two rows, as a mapping, whose reference answers are simulated."""
    Path("rows.jsonl").write_text('{"prompt": "a", "gold": "yes"}\n{"prompt": "b", "gold": "no"}\n')
    task = {"name": "jsonl", "path": "rows.jsonl", "checks": checks}
    return {"task": task, "model": {"backend": "simulated", "accuracy": 1.0}, **more}


def test_a_run_has_metrics_samples_and_attempts() -> None:
    run = harness.run(ROOT / QUICKSTART, **QUICK)
    assert run.path == Path("runs/quickstart").resolve()
    assert run.metrics.pass_rate == run.metrics.overall.pass_rate
    assert len(run.samples()) == run.metrics.n_samples == 52
    assert len(run.attempts()) == run.metrics.n_attempts > 52
    assert f"pass_rate={run.metrics.pass_rate:.4g}" in repr(run.metrics)
    assert len(repr(run.metrics)) < 300
    assert repr(run.samples()[0]).startswith(f"Attempt({run.samples()[0].instance!r}, sample=0")
    assert all(len(repr(one)) < 200 for one in run.attempts())
    assert "pass rate" in repr(run)
    assert "simulated" in repr(run)
    assert "±" in run._repr_html_()
    assert harness.open_run("quickstart").metrics == run.metrics
    with pytest.raises(DataMissing, match="quickstrat"):
        harness.open_run("quickstrat")


def completed_in_another_order(names: Sequence[str]) -> RunResult:
    """Run three rows with these names, whose attempts are recorded in another order."""
    rows = [{"id": name, "prompt": f"Say {name}.", "target": "x"} for name in names]
    task = {"rows": rows, "checks": "exact_match"}
    run = harness.run({"task": task, "model": "simulated/0"}, name="own", progress=False)
    lines = run.folder.attempts.read_bytes().splitlines(keepends=True)
    run.folder.attempts.write_bytes(lines[1] + lines[2] + lines[0])
    return run


def test_samples_are_in_the_order_of_the_rows_not_of_their_completion() -> None:
    names = ["c", "b", "a"]
    run = completed_in_another_order(names)
    assert [sample.instance for sample in run.samples()] == names


def test_a_rate_of_one_is_shown_with_its_interval_and_no_error_of_zero() -> None:
    task = {"rows": [{"q": f"Say {n}.", "target": str(n)} for n in range(20)], "prompt": "{{ q }}"}
    file = {"task": {**task, "checks": "exact_match"}, "model": "simulated/1"}
    run = harness.run(file, name="all", progress=False)
    assert repr(run) == "RunResult('all', pass rate 1.000, 95% 0.832-1.000, n=20, simulated)"
    assert "0.8316-1.0000" in run._repr_html_()
    assert "± 0.0" not in run._repr_html_()
    row = as_markdown(runs_document({"all": run.metrics}))
    assert "| 1.000 (0.832-1.000) |" in row
    assert "In brackets: the 95% interval" in row


def test_the_same_call_continues_a_run_and_fresh_starts_another() -> None:
    harness.run(ROOT / QUICKSTART, **QUICK)
    longer = harness.run(ROOT / QUICKSTART, limit=26, progress=False)
    assert longer.metrics.n_samples == 104
    assert harness.run(ROOT / QUICKSTART, fresh=True, **QUICK).metrics.n_samples == 52
    (kept,) = (path.name for path in Path("runs").glob("quickstart-*"))
    assert harness.open_run(kept).metrics.n_samples == 104


def test_a_smaller_limit_is_served_from_what_is_recorded() -> None:
    tree = file(["exact_match"])
    rows = [{"prompt": f"{n}", "target": f"{n}"} for n in range(20)]
    Path("rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    whole = harness.run(tree, limit=8, progress=False)
    again = harness.run(tree, limit=3, progress=False)
    assert (again.metrics.overall.n, again.metrics.complete) == (8, True)
    assert again.config.limit == whole.config.limit == 8
    attempts = whole.folder.attempts
    lines = attempts.read_bytes().splitlines(keepends=True)
    first = {one.instance for one in harness.run(tree, limit=3, name="few").attempts()}
    kept = [line for line in lines if json.loads(line)["instance"] not in first]
    attempts.write_bytes(b"".join(kept[:2]))  # as if the run had been interrupted
    part = harness.run(tree, limit=3, progress=False)
    assert len(part.attempts()) == 2 + 3
    assert first < {one.instance for one in part.attempts()}
    assert (part.metrics.complete, part.metrics.progress) == (False, "5 of 8")
    assert harness.run(tree, limit=8, progress=False).metrics.complete
    assert harness.run(tree, progress=False).metrics.overall.n == 20


def test_a_model_is_in_the_name_and_overrides_are_values() -> None:
    run = harness.run(
        ROOT / QUICKSTART,
        model="simulated/weak",
        overrides={"samples": 2, "rounds.max": 1},
        **QUICK,
    )
    assert run.name == "quickstart.simulated-weak"
    assert (run.config.model.name, run.config.samples) == ("weak", 2)
    assert run.metrics.n_attempts == 26


def test_a_model_may_be_given_for_a_file_that_has_none() -> None:
    file = {"task": WORDS}
    assert harness.run(file, model="simulated/0.8", limit=2, name="a").metrics.overall.n == 2
    given = {"model.backend": "simulated"}
    assert harness.run(file, overrides=given, limit=2, name="b").metrics.overall.n == 2
    with pytest.raises(ConfigError, match=r"harness eval jsonl .* task: {name: jsonl}"):
        harness.run("jsonl", model="simulated/0.8")


def test_a_file_with_variants_has_several_runs() -> None:
    several = file(["exact_match"], variants={"one": {}, "two": {"samples": 2}})
    with pytest.raises(ConfigError, match="one, two"):
        harness.run(several)
    Path("rows.jsonl").write_text(
        '{"prompt": "a", "target": "yes"}\n{"prompt": "b", "target": "no"}'
    )
    runs = harness.run_all(several, progress=False)
    assert list(runs) == ["one", "two"]
    assert harness.run(several, variant="two", progress=False).name == "run.two"
    with pytest.raises(ConfigError, match="no variant 'three'"):
        harness.run(several, variant="three")


def test_variants_that_a_spent_budget_left_unstarted_are_not_in_the_result() -> None:
    price = {"input": 1.0, "output": 1000.0}
    Path("rows.jsonl").write_text('{"prompt": "a", "target": "yes"}')
    with MockServer() as server:
        model = {"backend": "openai", "name": "m", "base_url": server.base_url, "price": price}
        more = {"decoding": {"max_tokens": 100}, "budget": {"usd": 0.0001}}
        task = {"name": "jsonl", "path": "rows.jsonl", "checks": ["exact_match"]}
        variants = {"a": {}, "b": {"samples": 2}}
        several = {"task": task, "model": model, "variants": variants, **more}
        assert list(harness.run_all(several, progress=False)) == ["a"]
        enough = {"budget.usd": 5}
        runs = harness.run_all(several, overrides=enough, progress=False)
        assert {name: run.metrics.n_samples for name, run in runs.items()} == {"a": 1, "b": 2}
        assert list(harness.run_all(several, progress=False)) == ["a", "b"]


def test_the_error_of_a_variant_is_raised_after_the_other_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "wrong")
    with MockServer(api_key="right") as server:
        refused = {"backend": "openai", "name": "m", "base_url": server.base_url}
        variants = {"refused": {"model": refused}, "b": {"model": "simulated"}}
        several = {"task": WORDS, "limit": 3, "variants": variants}
        with pytest.raises(FatalCallError, match="Variant 'refused': "):
            harness.run_all(several, progress=False)
    assert harness.open_run("run.b").metrics.n_samples == 3


def test_it_works_inside_a_running_event_loop(capsys: pytest.CaptureFixture[str]) -> None:
    async def notebook() -> tuple[Any, Any]:
        return harness.run(ROOT / QUICKSTART, limit=13), await harness.arun(
            ROOT / QUICKSTART, name="b", **QUICK
        )

    first, second = asyncio.run(notebook())
    assert first.metrics.pass_rate == second.metrics.pass_rate
    assert capsys.readouterr().err.count("quickstart: samples 52/52") == 1


def test_a_function_is_a_checker() -> None:
    @harness.checker
    def agrees(text: str, instance: Any, word: str = "yes") -> bool | str:
        """Says the word."""
        return True if text == word else f"{instance.id} does not say {word}"

    scores = [
        one.scores["agrees"] for one in harness.run(file(["agrees"]), progress=False).samples()
    ]
    assert [one.passed for one in scores] == [True, False]
    assert scores[1].reason.endswith("does not say yes")
    [one, _] = harness.run(file([{"agrees": {"word": "no"}}]), name="no", progress=False).samples()
    assert one.passed is False
    with pytest.raises(ConfigError, match="wrod"):
        harness.run(file([{"agrees": {"wrod": "no"}}]), name="wrong", progress=False)
    with pytest.raises(ConfigError, match="already is a checker"):
        harness.checker(_named("exact_match"))


def _named(name: str) -> Any:
    def function(text: str) -> float:
        return 1.0

    function.__name__ = name
    return function


def test_a_class_is_a_task() -> None:
    harness.task(Sums)
    model = {"backend": "simulated", "accuracy": 1.0}
    run = harness.run({"task": {"name": "sums"}, "model": model}, progress=False)
    assert run.metrics.pass_rate == 1


ECHO = """
from harness.plugin import Backend
from harness.records import Reply

class EchoBackend(Backend):
    features = frozenset({"conversation", "free", "max_tokens"})
    endpoint = ""
    cacheable = False

    async def generate(self, request):
        draft = request.messages[-1].content
        return Reply(f"{draft}{self.end}", "stop")

    async def aclose(self):
        pass

    end = ""
"""


def test_a_class_or_a_file_is_a_backend(tmp_path: Path) -> None:
    rows = [{"prompt": "a", "target": "a"}, {"prompt": "b", "target": "B"}]
    task = {"rows": rows, "checks": "exact_match"}
    path = tmp_path / "own" / "echo.py"
    path.parent.mkdir()
    path.write_text(ECHO)
    file = path.with_name("file.yaml")
    file.write_text(json.dumps({"task": task, "model": {"backend": "./echo.py"}}))
    assert harness.run(file, progress=False).metrics.pass_rate == 0.5
    path.write_text(ECHO.replace('end = ""', 'end = "."'))
    with pytest.raises(RunConflict, match=r"echo\.py"):
        harness.run(file, progress=False)

    scope: dict[str, Any] = {}
    exec(ECHO, scope)
    harness.backend(scope["EchoBackend"])
    run = harness.run({"task": task, "model": {"backend": "echo"}}, progress=False)
    assert run.metrics.pass_rate == 0.5
    assert not run.metrics.simulated


AGREES = """
from harness.plugin import Judge
from harness.records import Decoding, Message, Question, Score

class Agrees(Judge):
    def questions(self, instance, text):
        return [Question((Message("user", text),), Decoding())]

    def parse(self, instance, replies):
        return {"same": Score(replies[0].text == instance.data.row["target"])}
"""


def test_files_of_judges_and_of_variants_are_found_next_to_the_run_file(tmp_path: Path) -> None:
    rows = [{"prompt": "a", "target": "a"}, {"prompt": "b", "target": "B"}]
    own = tmp_path / "own"
    own.mkdir()
    (own / "echo.py").write_text(ECHO)
    (own / "agrees.py").write_text(AGREES)
    echo = {"backend": "./echo.py"}
    tree: dict[str, Any] = {"task": {"rows": rows, "checks": "exact_match"}, "model": echo}
    file = own / "file.yaml"
    file.write_text(json.dumps({**tree, "judges": [{"name": "./agrees.py", "model": echo}]}))
    assert harness.run(file, progress=False).metrics.scores["agrees.same"].mean == 0.5

    variants = {"plain": {"model": echo}, "dotted": {"model.backend": "./echo.py", "samples": 2}}
    file.write_text(json.dumps({**tree, "model": {"backend": "simulated"}, "variants": variants}))
    _, runs = read_runs(file)
    assert {run.model.backend for run in runs.values()} == {str(own / "echo.py")}


def test_a_name_of_a_notebook_may_be_registered_again() -> None:
    for value in (0.25, 0.75):

        @harness.checker
        def part(text: str, value: float = value) -> float:
            return value

    run = harness.run(file(["part"]), progress=False)
    assert run.metrics.scores["part"].mean == 0.75


def test_a_check_may_return_a_decimal() -> None:
    @harness.checker
    def share(text: str) -> Decimal:
        return Decimal("0.5")

    run = harness.run(file(["share"]), progress=False)
    assert run.metrics.scores["share"].mean == 0.5


@pytest.mark.parametrize("value", [None, math.nan, Score(math.inf), Decimal("nan")])
def test_a_check_that_returns_no_score_is_an_error(value: object) -> None:
    @harness.checker
    def wrong(text: str) -> object:
        return value

    with pytest.raises(ConfigError, match=r"instance '1'.*a (finite )?number"):
        harness.run(file(["wrong"]), progress=False)


def test_an_async_check_is_refused_before_any_call() -> None:
    async def later(text: str) -> bool:
        return True

    with pytest.raises(ConfigError, match=r"'later' is an async function. Define it with def"):
        harness.checker(later)


@pytest.mark.parametrize(
    "misspelt",
    [
        lambda: harness.run("quickstart", lmit=5),  # type: ignore[call-arg]
        lambda: harness.run_all("quickstart", lmit=5),  # type: ignore[call-arg]
    ],
)
def test_a_misspelt_option_is_refused_before_anything_is_run(
    misspelt: Callable[[], object],
) -> None:
    with pytest.raises(TypeError, match=r"has no option 'lmit'. Did you mean 'limit'\?"):
        misspelt()
    assert not Path("runs").exists()


def test_the_options_are_in_the_signature() -> None:
    assert "overrides" in inspect.signature(harness.run).parameters
    check_signature(harness.run)


def check_signature(function: Callable[..., object]) -> None:
    """Check that a function's signature and docstring have its options."""
    signature = inspect.signature(function)
    assert signature.parameters["limit"].default is None
    assert signature.parameters["limit"].annotation == "int | None"
    options = [one for one in signature.parameters.values() if one.kind is one.KEYWORD_ONLY]
    assert all(f"        {one.name}: " in (function.__doc__ or "") for one in options)


def test_a_model_by_name_does_not_leave_the_files_server() -> None:
    model = {"backend": "openai", "name": "m", "base_url": "http://127.0.0.1:9/v1"}
    tree = file([{"exact_match": {"target": {"field": "gold"}}}]) | {"model": model}
    with pytest.raises(ConfigError, match=r"sends its calls to http://127\.0\.0\.1:9/v1"):
        harness.run(tree, model="openai/gpt-4o-mini")
    assert not Path("runs").exists()
    assert harness.run(tree, model="simulated/1", progress=False).metrics.simulated


def test_a_check_that_raises_is_named_with_its_instance_and_answer() -> None:
    @harness.checker
    def data(text: str) -> bool:
        return bool(json.loads(text))

    said = r"check 'data' raised JSONDecodeError on instance '1': Expecting value.*\(test_api\.py, "
    with pytest.raises(ConfigError, match=said + r"line \d+\)\. The answer begins: 'yes'"):
        harness.run(file(["data"]), progress=False)


def test_a_check_that_exits_is_named() -> None:
    @harness.checker
    def leaves(text: str) -> bool:
        sys.exit("done")

    with pytest.raises(ConfigError, match=r"check 'leaves' raised SystemExit.*: done \(test_api"):
        harness.run(file(["leaves"]), progress=False)


def test_a_check_that_looks_for_a_field_in_the_instance_is_told_where_it_is() -> None:
    @harness.checker
    def right(text: str, instance: Any) -> bool:
        return bool(text == instance.target)

    with pytest.raises(ConfigError, match="has no attribute 'target'") as raised:
        harness.run(file(["right"]), progress=False)
    assert 'instance.data.row["NAME"]' in raised.value.remedy


@pytest.mark.parametrize("rows_name_it", [False, True])
def test_an_edited_checker_does_not_continue_a_run(rows_name_it: bool) -> None:
    tree = file(["exact_match"] if rows_name_it else ["mine"])
    if rows_name_it:
        Path("rows.jsonl").write_text('{"prompt": "a", "gold": "yes", "checks": ["mine"]}\n')

    @harness.checker
    def mine(text: str) -> bool:
        return True

    run = harness.run(tree, progress=False)
    assert run.metrics.pass_rate == harness.run(tree, progress=False).metrics.pass_rate == 1

    @harness.checker
    def mine(text: str) -> bool:  # noqa: F811
        return False

    with pytest.raises(RunConflict, match=r"another version of mine\. .*rescore=True.*fresh=True"):
        harness.run(tree, progress=False)
    assert harness.run(tree, fresh=True, progress=False).metrics.pass_rate == 0
    assert harness.run(tree, progress=False).metrics.pass_rate == 0


def test_a_conflict_names_the_file_of_rows_and_their_numbers() -> None:
    tree = file([{"contains": {"target": "yes"}}], samples=2)
    harness.run(tree, progress=False)
    with Path("rows.jsonl").open("a") as rows:
        rows.write('{"prompt": "c"}\n')
    with pytest.raises(RunConflict, match=r"of the data \(rows\.jsonl: 2 instances, now 3\)\."):
        harness.run(tree, progress=False)


def at_most(most: int) -> Callable[[str], bool]:
    def short(text: str) -> bool:
        return len(text) <= most

    return short


def test_two_functions_of_one_name_are_refused_in_one_call() -> None:
    one, two = at_most(50), at_most(1)
    with pytest.raises(ConfigError, match=r"named 'short'.*__name__ = 'short_2'"):
        harness.run(file([one, two]), progress=False)
    two.__name__ = "short_2"
    scores = harness.run(file([one, two]), progress=False).metrics.scores
    assert (scores["short"].mean, scores["short_2"].mean) == (1, 0)


def test_a_version_stands_for_the_values_of_a_closure() -> None:
    def pass_rate(most: int) -> float | None:
        short = harness.checker(version=str(most))(at_most(most))
        return harness.run(file([short]), progress=False).metrics.pass_rate

    assert pass_rate(50) == pass_rate(50) == 1
    with pytest.raises(RunConflict, match=r"another version of short\."):
        pass_rate(1)


def test_a_check_may_return_a_numpy_value() -> None:
    def agrees(text: str) -> Any:
        return np.bool_(text == "yes")

    def share(text: str) -> Any:
        return np.float32(0.5)

    scores = harness.run(file([agrees, share]), progress=False).metrics.scores
    assert (scores["agrees"].mean, scores["share"].mean) == (0.5, 0.5)


def test_a_checker_without_source_is_known_by_its_version() -> None:
    tree = file(["mine"])
    for version, passed in (("1", "'yes'"), ("1", "'yes'"), ("2", "'no'")):
        code = (
            f"@harness.checker(version='{version}')\ndef mine(text):\n    return text == {passed}"
        )
        exec(code, {"harness": harness})
        if version == "1":
            assert harness.run(tree, progress=False).metrics.pass_rate == 0.5
    with pytest.raises(RunConflict, match="another version of mine"):
        harness.run(tree, progress=False)


SLOW = """
import harness
tree = {
    "task": {"name": "jsonl", "path": "rows.jsonl", "checks": ["exact_match"]},
    "model": {"backend": "simulated", "accuracy": 1.0, "latency_s": 0.05},
    "limits": {"concurrency": 1},
    "samples": 1000,
}
work = "harness.run(tree, name='slow', progress=False)"
if LOOP:
    import asyncio

    async def cell():
        eval(work)

    asyncio.new_event_loop().run_until_complete(cell())  # as a notebook's kernel does
else:
    eval(work)
"""


@pytest.mark.parametrize("loop", [False, True])
def test_ctrl_c_saves_the_answers_and_says_how_to_continue(loop: bool) -> None:
    file(["exact_match"])
    Path("rows.jsonl").write_text('{"prompt": "a", "target": "yes"}\n')
    Path("slow.py").write_text(SLOW.replace("LOOP", str(loop)))
    command = [sys.executable, "slow.py"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        attempts = Path("runs/slow/attempts.jsonl")
        while not (attempts.exists() and attempts.read_bytes().count(b"\n") > 2):
            assert process.poll() is None, process.stderr
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        said = process.communicate()[1]
    assert "KeyboardInterrupt: Interrupted. All finished answers are saved (runs: slow)." in said
    assert said.rstrip().endswith("The same call continues.")
    inside = [line for line in said.splitlines() if "/harness/" in line]
    assert len(inside) <= 2, said
    metrics = harness.open_run("slow").metrics
    assert (metrics.complete, metrics.n_attempts) == (False, attempts.read_bytes().count(b"\n"))


def test_rows_and_functions_are_given_directly_and_kept_with_the_run(tmp_path: Path) -> None:
    def short(text: str, most: int = 3) -> bool:
        return len(text) <= most

    rows = [{"prompt": "a", "target": "yes"}, {"prompt": "b", "target": "maybe"}]
    tree: dict[str, Any] = {
        "task": {"name": "jsonl", "rows": rows, "checks": ["exact_match", {short: {"most": 5}}]},
        "model": {"backend": "simulated", "accuracy": 1.0},
    }
    run = harness.run(tree, progress=False)
    assert run.metrics.pass_rate == run.metrics.scores["short"].mean == 1
    kept = tmp_path / "runs/run/rows.jsonl"
    assert [json.loads(line) for line in kept.read_text().splitlines()] == rows
    assert run.config.task.options["path"] == str(kept)
    assert len(harness.run(tree, progress=False).attempts()) == 2
    RunFolder(tmp_path / "runs", "run").rename("moved")
    moved = harness.open_run("moved").config
    assert moved.task.options["path"] == str(tmp_path / "runs/moved/rows.jsonl")
    assert harness.run(tree, name="moved", progress=False).metrics.n_attempts == 2

    def short(text: str, most: int = 3) -> bool:
        return len(text) < most

    tree["task"]["checks"] = [short]

    async def notebook() -> None:
        harness.run(tree, name="moved", progress=False)

    with pytest.raises(RunConflict, match="rescore=True"):
        asyncio.run(notebook())


@pytest.mark.parametrize(
    ("task", "problem"),
    [
        ({"rows": [{"prompt": {1, 2}, "x": object()}]}, "task.rows, item 1: not a mapping"),
        ({"rows": ["a"]}, "task.rows, item 1: not a mapping"),
        ({"rows": [], "path": "rows.jsonl"}, "task.rows and task.path are both given"),
        ({"rows": [{"prompt": "a"}], "checks": [lambda text: True]}, "is a lambda"),
        ({"rows": [{"prompt": "a"}], "checks": [partial(max, 1)]}, "not a function.*'partial'"),
    ],
)
def test_wrong_rows_and_functions_are_named(task: dict[str, Any], problem: str) -> None:
    tree = {"task": {"name": "jsonl", **task}, "model": {"backend": "simulated"}}
    with pytest.raises(ConfigError, match=problem):
        harness.run(tree, progress=False)
    assert not Path("runs").exists()


def test_an_edited_task_does_not_continue_a_run() -> None:
    tree = {"task": {"name": "sums"}, "model": {"backend": "simulated"}}
    harness.task(Sums)
    harness.run(tree, name="s", progress=False)

    class Edited(Sums):
        pass

    Edited.__name__ = "Sums"
    harness.task(Edited)
    with pytest.raises(RunConflict, match="another version of tasks/sums"):
        harness.run(tree, name="s", progress=False)


APP = """
def answer(prompt: str, ending: str = "") -> str:
    return prompt + ending
"""


def test_a_function_in_a_file_is_a_backend_whose_shared_replies_are_those_of_its_code(
    tmp_path: Path,
) -> None:
    rows = [{"prompt": "a", "target": "a"}, {"prompt": "b", "target": "B"}]
    task = {"rows": rows, "checks": "exact_match", "system": ""}
    app, file = tmp_path / "own_app.py", tmp_path / "file.yaml"
    app.write_text(APP)
    file.write_text(json.dumps({"task": task, "model": {"backend": "./own_app.py"}}))
    run = harness.run(file, progress=False)
    assert run.metrics.pass_rate == 0.5
    assert run.config.model.name == "own_app"
    again = harness.run(file, name="again", progress=False)
    assert [one.cached for one in again.samples()] == [False, False]
    shared = partial(harness.run, file, overrides={"model.cache": "shared"}, progress=False)
    cached = [[one.cached for one in shared(name=name).samples()] for name in ("one", "two")]
    assert cached == [[False, False], [True, True]]
    app.write_text(APP.replace("+ ending", "+ '!'"))
    assert [one.text for one in shared(name="three").samples()] == ["a!", "b!"]
    with pytest.raises(RunConflict, match=r"own_app\.py.* all calls are made again"):
        harness.run(file, progress=False)
    changed = harness.run(file, fresh=True, progress=False)
    assert [one.text for one in changed.samples()] == ["a!", "b!"]


def test_an_asynchronous_function_gets_messages_and_options() -> None:
    @harness.backend
    async def said(messages: list[dict[str, str]], ending: str, *, model: str) -> Reply:
        turns = [f"{one['role']}: {one['content']}" for one in messages]
        return Reply(" ".join([*turns, ending, model]), "stop")

    task = {"rows": [{"prompt": "a"}], "system": "b", "checks": [{"contains": {"target": "b"}}]}
    model = {"backend": "said", "ending": "c"}
    run = harness.run({"task": task, "model": model}, progress=False)
    assert [one.text for one in run.samples()] == ["system: b user: a c said"]


def test_a_function_that_fails_for_the_first_prompts_is_asked_for_the_others_on_a_repeat() -> None:
    @harness.backend
    def partly(prompt: str) -> str:
        if int(prompt) < 15:
            raise ValueError(prompt)
        return prompt

    rows = [{"prompt": str(number), "target": str(number)} for number in range(20)]
    tree = {
        "task": {"rows": rows, "checks": "exact_match"},
        "model": {"backend": "partly"},
        "limits": {"concurrency": 1},
    }
    with pytest.raises(FatalCallError, match="run again unchanged: a repeat asks all"):
        harness.run(tree, name="partly", progress=False)
    again = harness.run(tree, name="partly", progress=False)
    assert again.metrics.outcomes["ok"] == 5


@pytest.mark.parametrize(("limit", "ended"), [(10, None), (1, BudgetBroken)])
def test_a_budget_limits_the_cost_of_a_function(limit: int, ended: type[Exception] | None) -> None:
    @harness.backend
    def counted(prompt: str) -> Reply:
        return Reply("a", "stop", usage=Usage(1, 10))

    tree = {
        "task": {"rows": [{"prompt": "a", "target": "a"}], "checks": "exact_match"},
        "model": {"backend": "counted", "price": {"input": 0, "output": 1}},
        "budget": {"usd": 1},
        "decoding": {"max_tokens": limit},
    }
    with pytest.raises(ended) if ended else nullcontext():
        assert harness.run(tree, progress=False).metrics.pass_rate == 1


def test_a_backend_without_a_name_is_refused() -> None:
    with pytest.raises(ConfigError, match="has no name under which"):
        harness.backend(partial(print, end=""))


def run_and_file_that_is_read_otherwise() -> Path:
    """Run two rows, and write a run file in which the first target is read as another text."""
    rows = [{"prompt": "Which code?", "target": 668}, {"prompt": "b", "target": "b"}]
    tree = {"task": {"rows": rows, "checks": "exact_match"}, "model": "simulated/1"}
    assert harness.run(tree, name="mine", progress=False).metrics.overall.pass_rate == 1
    file = Path("mine.yaml")
    listed = '[{prompt: "Which code?", target: 01234}, {prompt: b, target: b}]'
    file.write_text(f"task: {{rows: {listed}, checks: exact_match}}\nmodel: simulated/1\n")
    return file


def test_a_run_whose_rows_were_read_otherwise_names_them() -> None:
    file = run_and_file_that_is_read_otherwise()
    with pytest.raises(RunConflict, match=r"item 1 of task\.rows differ") as refused:
        harness.run(file, progress=False)
    assert "rescore" in refused.value.remedy


def run_whose_rows_an_earlier_version_read_otherwise() -> dict[str, Any]:
    """Run a file of rows as an earlier version recorded it, and return the run file."""
    Path("rows.yaml").write_text("- {prompt: a, target: a}\n- {prompt: b, target: 12:30}\n")
    task = {"name": "jsonl", "path": "rows.yaml", "checks": ["exact_match"]}
    tree = {"task": task, "model": {"backend": "simulated"}}
    run = harness.run(tree, name="mine", progress=False)
    manifest = run.path / "manifest.json"
    recorded = json.loads(manifest.read_text())
    content = Path("rows.yaml").read_bytes()  # version 0.1.0 recorded the hash of the file
    recorded["fingerprint"]["dataset_sha256"] = hashlib.sha256(content).hexdigest()
    manifest.write_text(json.dumps(recorded))
    return tree


def test_a_file_of_rows_that_is_read_otherwise_is_named_with_its_items() -> None:
    tree = run_whose_rows_an_earlier_version_read_otherwise()
    with pytest.raises(RunConflict, match=r"rows\.yaml: the same file, .* item 2 otherwise"):
        harness.run(tree, name="mine", progress=False)
