"""The task `lm_eval` by itself; that it does what lm-eval does is tested beside."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.datasets.folder import DataFolder
from harness.errors import ConfigError, DataMissing, Unparseable
from harness.plugins.lm_eval.task import LmEvalTask
from harness.plugins.testing import check_task
from harness.ports import GivenAnswer
from harness.records import Decoding, Instance, Message, Origin, Request
from tests.cli.command import harness
from tests.plugins.lm_eval.shapes import write

pytestmark = pytest.mark.usefixtures("executing_code")

if find_spec("lm_eval") is None:
    pytest.skip("lm-eval is not installed: run scripts/test-exchange", allow_module_level=True)


def built(task: str | list[str], include_path: str = "builtin", **options: Any) -> LmEvalTask:
    return LmEvalTask(task, include_path, **options, data=DataFolder(Path()))


def request(task: LmEvalTask, instance: Instance[Any], decoding: Decoding) -> Request:
    asked = task.messages(instance, ())
    given = Request("m", asked, decoding, 2, Origin(instance.id, 2, 1), seed=5)
    return task.adapted_request(instance, given)


def test_the_examples_are_right() -> None:
    task = built(["example_sums", "example_choices"])
    assert check_task(task) == []
    first, *_, last = task.instances()
    assert (first.id, dict(first.groups)) == ("example_sums/0", {"task": "example_sums"})
    (prompt,) = task.messages(first, ())
    assert prompt.content.startswith("Answer with a number.\n\n")
    asked, *answers = task.messages(last, ())
    assert asked.content.startswith("Question: A box")
    assert [answer.role for answer in answers] == ["assistant"] * 4


def test_an_answer_gets_the_metrics_of_each_filter_and_the_first_decides() -> None:
    task = built("example_sums")
    instance = next(task.instances())
    right = task.reference(instance)
    assert right is not None
    exact, flexible = (f"exact_match,{name}" for name in ("strict", "flexible"))
    found = task.score(instance, f"There are {right}")
    assert {name: score.value for name, score in found.items()} == {exact: 0.0, flexible: 1.0}
    assert [found[exact].passed, found[flexible].passed] == [False, None]
    assert found[exact].reason == f"'There are {right}' is not the expected answer '{right}'"
    assert task.score(instance, right)[exact].passed is True
    assert task.extracted(instance, right) is None
    none = task.score_of_no_answer(instance)[exact]
    assert (none.passed, none.reason) == (False, "")  # its outcome says why


@pytest.mark.parametrize(
    ("shape", "reply", "said"),
    [
        ("fixed_shots", "9 or 8", "'9' is not the expected answer '0'"),
        ("majority", "none", "'[invalid]' is not the expected answer '0'"),
        ("own_code", "9", "'9' does not pass (target: '3')"),
        ("mutual_information", 1, "'é°—1, 0' is not the expected answer 'it is 0'"),
        ("two_contexts", 1, "'é°—1, 0 is' is not the expected answer 'it is 0 is'"),
    ],
)
def test_a_failed_answer_is_told_with_the_target(
    shape: str, reply: str | int, said: str, tmp_path: Path
) -> None:
    task = built(shape, str(write(tmp_path)))
    first = next(task.instances())
    if isinstance(reply, int):  # the place of the likeliest answer
        totals = [-float(place != reply) for place in range(len(first.data.requests))]
        reply = json.dumps([[total, False, 1] for total in totals])
    [failed] = [one for one in task.score(first, reply).values() if one.passed is not None]
    assert (failed.passed, failed.reason) == (False, said)


def test_the_run_files_decoding_wins_over_the_tasks() -> None:
    task = built("example_sums")
    instance = next(task.instances())
    own = request(task, instance, Decoding()).decoding
    assert own == Decoding(0.0, 64, stop=("\n\n",))
    set_in_file = Decoding(0.7, 9, stop=("x",), extra={"top_k": 3})
    assert request(task, instance, set_in_file).decoding == set_in_file


def test_samples_of_given_answers_share_a_call() -> None:
    task = built("example_choices")
    instance = next(task.instances())
    found = request(task, instance, Decoding(0.7, 9))
    assert found.loglikelihoods
    assert (found.sample, found.seed, found.decoding) == (0, None, Decoding(0.0, 4))


@pytest.mark.parametrize("text", ["", "It is 7.", "[[-1.0, true]]", "[[null, true]]"])
def test_what_is_no_list_of_log_likelihoods_is_unparseable(text: str) -> None:
    task = built("example_choices")
    with pytest.raises(Unparseable):
        task.score(next(task.instances()), text)


def test_documents_without_an_answer_are_left_out_of_the_metrics_of_all() -> None:
    task = built("example_sums")
    first, second, *_ = task.instances()
    answers = [GivenAnswer(first.id, 0, task.reference(first) or ""), GivenAnswer(second.id, 0, "")]
    found = task.aggregate_answers(answers)["example_sums"]
    assert (found["exact_match,strict"], found["sample_len"]) == (0.5, 2.0)
    assert task.aggregate_answers([]) == {}


def test_a_group_is_a_label(tmp_path: Path) -> None:
    task = built("weighed", str(write(tmp_path)))
    groups = {tuple(instance.groups.values()) for instance in task.instances()}
    assert groups == {("leaf_small", "weighed"), ("leaf_large", "weighed")}


def test_a_chat_has_turns(tmp_path: Path) -> None:
    task = built("chat", str(write(tmp_path)), apply_chat_template=True, system_instruction="Hi.")
    found = task.messages(next(task.instances()), ())
    assert found[0] == Message("system", "Hi.\n\nAnswer with a number.")
    assert [turn.role for turn in found[1:]] == ["user", "assistant"] * 3
    assert len(request(task, next(task.instances()), Decoding()).decoding.stop) == 4


def test_what_scoring_depends_on_is_in_the_fingerprint(tmp_path: Path) -> None:
    tasks = write(tmp_path)
    before, same = (built("own_code", str(tasks)).fingerprint() for _ in range(2))
    assert before == same
    code = (tasks / "own.py").read_text()
    (tasks / "own.py").write_text(code.replace("else -100", "else -50"))
    assert differing(before, built("own_code", str(tasks)).fingerprint()) == {"checks_sha256"}
    shots = built("sampled_shots", str(tasks)).fingerprint()
    fewer = built("sampled_shots", str(tasks), num_fewshot=1).fingerprint()
    assert differing(shots, fewer) == {"prompt_sha256"}
    chat, *others = (
        built("chat", str(tasks), **options).fingerprint()
        for options in (
            {},
            {"apply_chat_template": True},
            {"system_instruction": "Hi."},
            {"num_fewshot": 0},
        )
    )
    assert [differing(chat, one) for one in others] == [{"prompt_sha256"}] * 3


@pytest.mark.parametrize(
    ("old", "new", "differs"),
    [
        ("take_first", "take_first_k, k: 1", {"checks_sha256"}),
        ("{metric: exact_match", "{metric: exact_match, ignore_case: true", {"checks_sha256"}),
        ("Question: {{question}}", "Q: {{question}}", {"prompt_sha256"}),
        ("max_gen_toks: 32", "max_gen_toks: 64", {"decoding_sha256"}),
        (
            "test_split: test",
            "test_split: train",
            {"documents_sha256", "prompt_sha256", "decoding_sha256"},
        ),
    ],
)
def test_prompts_scoring_and_documents_are_told_apart(
    old: str, new: str, differs: set[str], tmp_path: Path
) -> None:
    tasks = write(tmp_path)
    before = built("filtered", str(tasks)).fingerprint()
    own = (tasks / "filtered.yaml").read_text()
    assert old in own
    (tasks / "filtered.yaml").write_text(own.replace(old, new))
    assert differing(before, built("filtered", str(tasks)).fingerprint()) == differs


def differing(before: Mapping[str, str], now: Mapping[str, str]) -> set[str]:
    assert before.keys() == now.keys()
    return {key for key in before if before[key] != now[key]}


def test_runs_with_other_shots_are_compared_and_those_of_an_earlier_version_continue(
    tmp_path: Path,
) -> None:
    env = {"HARNESS_RUNS_DIR": str(tmp_path), "HARNESS_CACHE_DIR": str(tmp_path / "cache")}
    variants = {"one": {}, "three": {"task.num_fewshot": 3}}
    task = {"name": "lm_eval", "task": "example_sums", "include_path": "builtin"}
    tree = {"task": task, "model": "simulated/m", "variants": variants}
    (tmp_path / "sums.yaml").write_text(yaml.safe_dump(tree))

    def run(*more: str) -> str:
        ended = harness("run", "sums.yaml", *more, cwd=tmp_path, env=env, start_new_session=True)
        return ended.stdout + ended.stderr

    assert "The variants differ in task.num_fewshot." in run()
    for place, name in enumerate(variants):
        path = tmp_path / f"sums.{name}" / "manifest.json"
        manifest = json.loads(path.read_text())
        earlier = {"task_sha256": f"{place}", "dataset_sha256": f"{place}"}
        manifest["fingerprint"] = {"lm_eval": manifest["fingerprint"]["lm_eval"], **earlier}
        path.write_text(json.dumps(manifest))
    attempts = (tmp_path / "sums.three" / "attempts.jsonl").read_bytes()
    refused = harness("compare", "sums", cwd=tmp_path, env=env).stderr
    assert "Run both files again on the same data" in refused
    assert "The variants differ in task.num_fewshot." in run()
    assert (tmp_path / "sums.three" / "attempts.jsonl").read_bytes() == attempts
    changed = run("-o", "task.fewshot_seed=7", "-o", "task.system_instruction=Hi.")
    assert "--rescore" not in changed
    assert "--fresh" in changed


UNSAFE = "unsafe_code: true\n"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"task": "no_such_task_anywhere"}, "no task named 'no_such_task_anywhere'"),
        ({"task": "unsafe"}, "runs code that the model writes"),
        ({"task": "plain_choice", "apply_chat_template": True}, "are sent as plain text"),
        ({"task": "chat", "apply_chat_template": "missing.jinja"}, "missing.jinja cannot be read"),
    ],
)
def test_what_is_not_supported_is_refused(
    options: dict[str, Any], said: str, tmp_path: Path
) -> None:
    tasks = write(tmp_path)
    filtered = (tasks / "filtered.yaml").read_text().replace("task: filtered", "task: unsafe")
    (tasks / "unsafe.yaml").write_text(filtered + "\n" + UNSAFE)
    with pytest.raises(ConfigError, match=said):
        list(built(**options, include_path=str(tasks)).instances())


@pytest.mark.parametrize(
    ("options", "old", "new", "said"),
    [
        (
            {},
            "metric: exact_match",
            "metric: exact_mtch",
            "has an unknown metric: exact_mtch",
        ),
        ({}, "aggregation: mean", "aggregation: meen", "unknown aggregation of the metric exact_m"),
        ({}, "{{question}}", "{{qestion}}", "Loading filtered .* 'qestion' is undefined"),
        ({}, "take_first", "take_frst", "Loading filtered .*'take_frst'"),
        (
            {"num_fewshot": 20},
            "",
            "",
            "has 12 rows for few-shot .* num_fewshot: 20",
        ),
        (
            {},
            "{{answer}}",
            "!function broken.target",
            "KeyError: 'anser'; broken.py",
        ),
        (
            {},
            "metric_list",
            "process_results: !function broken.results\nmetric_list",
            "Scoring",
        ),
        (
            {},
            "{{answer}}",
            "!function missing.target",
            "pip install no_such_package",
        ),
    ],
)
def test_a_mistake_in_a_task_of_your_own_is_reported_before_any_call(
    options: dict[str, Any], old: str, new: str, said: str, tmp_path: Path
) -> None:
    tasks = write(tmp_path)
    own = (tasks / "filtered.yaml").read_text()
    assert old in own
    (tasks / "filtered.yaml").write_text(own.replace(f'"{old}"', new).replace(old, new))
    target = "def target(doc):\n    return doc['anser']\n"
    results = "def results(doc, answers):\n    return {'acc': doc['anser']}\n"
    (tasks / "broken.py").write_text(target + results)
    (tasks / "missing.py").write_text(f"import no_such_package\n{target}")
    with pytest.raises(ConfigError, match=said):
        list(built("filtered", str(tasks), **options).instances())


def test_a_missing_file_of_data_is_named(tmp_path: Path) -> None:
    tasks = write(tmp_path)
    (tmp_path / "data.json").unlink()
    with pytest.raises(DataMissing, match=r"data\.json.* Correct dataset_kwargs"):
        list(built("filtered", str(tasks)).instances())


def test_metrics_that_fail_for_some_answers_do_not_end_a_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tasks = write(tmp_path)
    (tasks / "own.py").write_text((tasks / "own.py").read_text().replace("else -100", "else 1 / 0"))
    task = built("own_code", str(tasks))
    first, *_ = task.instances()
    assert task.score(first, "none")["score"].value is None
    assert task.aggregate_answers([GivenAnswer(first.id, 0, "none")]) == {}
    assert "lm-eval's metrics of own_code are missing: ZeroDivisionError" in caplog.text


def test_the_shipped_run_file_runs(tmp_path: Path) -> None:
    env = {"HARNESS_RUNS_DIR": str(tmp_path), "HARNESS_CACHE_DIR": str(tmp_path / "cache")}
    ended = harness("run", "lm_eval_example", env=env, start_new_session=True)
    assert ended.returncode == 0, ended.stderr
    metrics = json.loads((tmp_path / "lm_eval_example" / "metrics.json").read_text())
    assert metrics["n_samples"] == 40
    assert 0.5 < metrics["overall"]["pass_rate"] < 0.9
    assert metrics["aggregates"]["example_sums"]["sample_len"] == 20.0


def test_eval_names_tasks_after_a_prefix(tmp_path: Path) -> None:
    env = {"HARNESS_RUNS_DIR": str(tmp_path), "HARNESS_CACHE_DIR": str(tmp_path / "cache")}
    words = ["lm_eval:example_sums,example_sums", "--model", "simulated/m"]
    twice = harness("eval", *words, "-o", "task.include_path=builtin", env=env)
    assert "Two tasks have runs named 'example_sums'" in twice.stderr
    words[0] = "lm_eval:example_sums"
    shots = harness(
        "eval", *words, "-o", "task.include_path=builtin", "-o", "task.shots=2", env=env
    )
    assert shots.returncode == 1
    assert "Set task.num_fewshot instead of task.shots." in shots.stderr
    ended = harness(
        "eval", *words, "-o", "task.include_path=builtin", env=env, start_new_session=True
    )
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "eval.example_sums.simulated-m" / "metrics.json").exists()
