"""A user's own benchmark, as its user makes it."""

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.plugin_loader import kind
from harness.plugins.mock.server import MockServer
from tests.cli.command import harness, mistake
from tests.installed import has_run_step, has_verb

RUN = """
task:
  name: jsonl
  path: {path}
  prompt: "{{{{ question }}}} End with: The answer is <word>"
  extract: {{regex: 'answer is (\\w+)'}}
  checks:
    - exact_match: {{field: target, ignore_case: true}}
    - word_count: {{at_most: {{field: most}}}}
      of: text
      as: short
  groups: [topic]
model: {{backend: simulated, accuracy: 1}}
"""
ROWS: list[dict[str, Any]] = [
    {"question": f"{n}?", "target": f"w{n}", "most": 3 if n % 2 else 2, "topic": "odd" * (n % 2)}
    for n in range(10)
]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return os.environ | {"HARNESS_RUNS_DIR": str(tmp_path / "runs")}


def written(folder: Path, rows: list[dict[str, Any]], run: str = RUN) -> Path:
    path = folder / "mine.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    file = folder / "mine.yaml"
    file.write_text(run.format(path=path))
    return file


def test_a_benchmark_without_python(tmp_path: Path, environment: dict[str, str]) -> None:
    ended = harness("run", written(tmp_path, ROWS), env=environment)
    assert ended.returncode == 0, ended.stderr
    found = msgspec.json.decode((tmp_path / "runs/mine/metrics.json").read_bytes())
    # Where at most two words are asked for, no gold passes and the simulated model is wrong.
    assert found["overall"]["pass_rate"] == 0.5
    assert set(found["groups"]["topic"]) == {"odd", ""}
    assert found["groups"]["topic"]["odd"]["pass_rate"] == 1
    lines = (tmp_path / "runs/mine/attempts.jsonl").read_bytes().splitlines()
    attempts = {found["instance"]: found for found in map(msgspec.json.decode, lines)}
    assert set(attempts["2"]["scores"]) == {"exact_match", "short"}
    assert attempts["2"]["request"]["messages"][0]["content"] == (
        "1? End with: The answer is <word>"
    )
    if has_verb("score"):
        assert harness("score", "mine", env=environment).returncode == 0


def test_a_mistake_in_a_row_is_told_before_any_call(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    broken = [*ROWS, {**ROWS[0], "most": "many"}]
    said = mistake(harness("run", written(tmp_path, broken), env=environment))
    assert "mine.jsonl, item 11: short: Option 'at_most' of the checker 'word_count'" in said
    lacking = [*ROWS, {"qestion": "?", "target": "x", "most": 1, "topic": "x"}]
    said = mistake(harness("run", written(tmp_path, lacking), env=environment))
    assert "item 11: task.prompt needs the field 'question'" in said
    assert "Did you mean 'qestion'?" in said
    assert not list((tmp_path / "runs").glob("*/attempts.jsonl")) or not any(
        path.stat().st_size for path in (tmp_path / "runs").glob("*/attempts.jsonl")
    )


def test_a_pattern_without_end_does_not_hang_the_run(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    targets = ("a" * 40 + "!", "b")  # the second has a verdict at once
    rows = [{"prompt": f"{target}?", "target": target} for target in targets]
    run = """
task: {{name: jsonl, path: {path}, gold: "{{{{ target }}}}",
  checks: [{{regex_match: {{pattern: '(a|a)*b?$(?<=b)'}}}}]}}
model: {{backend: simulated, accuracy: 1}}
"""
    ended = harness("run", written(tmp_path, rows, run), env=environment)
    assert ended.returncode == 0, ended.stderr
    lines = (tmp_path / "runs/mine/attempts.jsonl").read_bytes().splitlines()
    attempts = {row["instance"]: row for row in map(msgspec.json.decode, lines)}
    assert [attempts[name]["passed"] for name in sorted(attempts)] == [None, True]
    [slow, _] = [attempts[name] for name in sorted(attempts)]
    assert "takes more than" in slow["scores"]["regex_match"]["reason"]


SCHEMAS = """
task: {{name: jsonl, path: {path}}}
model: {{backend: openai, preset: openai, name: m}}
decoding: {{constraint: task}}
"""


def schema_row(number: int, **check: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"n": {"type": "string", "pattern": "^a"}}}
    given = {"json_schema": {"schema": schema} | check}
    return {"prompt": f"JSON, please ({number}).", "checks": [given]}


def test_the_schema_of_a_row_constrains_its_answer(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    file = written(tmp_path, [schema_row(1), schema_row(2)], SCHEMAS)
    env = environment | {"OPENAI_API_KEY": "k"}
    with MockServer(answers=lambda ask, n: '{"n": "abc"}') as server:
        base = "-o", f"model.base_url={server.base_url}"
        ended = harness("run", file, *base, env=env)
        assert ended.returncode == 0, ended.stderr
    line = (tmp_path / "runs/mine/attempts.jsonl").read_text().splitlines()[0]
    assert "pattern" in json.dumps(json.loads(line)["request"])
    with MockServer(answers=lambda ask, n: "no", refuse=["schema:pattern"]) as server:
        base = "-o", f"model.base_url={server.base_url}"
        ended = harness("run", file, *base, "--name", "refused", env=env)
    assert "outcomes 2 error" in ended.stderr
    if has_verb("show"):
        shown = harness("show", "refused", "--rejected", env=env)
        assert "2 of 2 constraints were rejected by the provider." in shown.stdout


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"prompt": "Free.", "target": "a", "checks": ["exact_match"]}, "has no check json_schema"),
        (schema_row(2, extraction="fence"), "is not for the whole reply as JSON"),
    ],
)
def test_a_row_without_a_schema_for_its_answer_is_refused_before_any_call(
    tmp_path: Path, environment: dict[str, str], row: dict[str, Any], said: str
) -> None:
    file = written(tmp_path, [schema_row(1), row], SCHEMAS)
    ended = harness("run", file, env=environment | {"OPENAI_API_KEY": "k"})
    assert said in mistake(ended)


@pytest.mark.parametrize(
    ("answer", "options", "hinted"),
    [
        ("Here:\n```json\n{}\n```", {}, True),
        ("Here: {}", {}, False),
        ("Here:\n```json\n{\n```", {"extraction": "fence"}, False),
    ],
)
def test_answers_that_none_can_parse_are_explained(
    answer: str,
    options: dict[str, str],
    hinted: bool,
    tmp_path: Path,
    environment: dict[str, str],
) -> None:
    check = {"json_schema": {"schema": {"type": "object"}, **options}}
    row = {"prompt": "JSON.", "checks": [check]}
    file = written(tmp_path, [row], SCHEMAS.replace("constraint: task", "temperature: 0"))
    with MockServer(answers=lambda ask, n: answer) as server:
        base = "-o", f"model.base_url={server.base_url}"
        ended = harness("run", file, *base, env=environment | {"OPENAI_API_KEY": "k"})
    assert "No answer could be parsed" in ended.stderr
    assert ("extraction: fence" in ended.stderr) == hinted


def test_truncated_and_unparseable_answers_are_left_out_of_scores_with_a_note(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    check = {"json_schema": {"schema": {"type": "object"}}}
    rows = [{"id": text, "prompt": text, "checks": [check]} for text in ("{}", "[1]", "[2]", "no")]
    file = written(tmp_path, rows, SCHEMAS.replace("constraint: task", "max_tokens: 5"))
    env = environment | {"OPENAI_API_KEY": "k", "HARNESS_RUNS_DIR": str(tmp_path / "runs")}
    with MockServer(
        answers=lambda ask, n: ask.prompt.replace("no", "one two three four five six seven")
    ) as server:
        ended = harness("run", file, "-o", f"model.base_url={server.base_url}", env=env)
    assert "1 of 4 answers reached the token limit" in ended.stderr
    assert "Scores leave out answers" in ended.stdout
    if has_verb("check"):
        told = harness("check", file.stem, "--min", "json_schema=0", env=env).stdout
        assert "1 of 4 samples has no json_schema (1 truncated)" in " ".join(told.split())
    if has_verb("show"):
        for listing in ("--failed", "--side-by-side"):
            listed = harness("show", file.stem, listing, env=env | {"COLUMNS": "200"}).stdout
            assert "token limit (decoding.max_tokens)" in listed
        failed = harness("show", file.stem, "--failed", env=env).stdout
        [line] = [line for line in failed.splitlines() if line.startswith("     2")]
        assert "[N]" in line or "not of type" in line


def test_a_file_of_rows_implies_the_task(tmp_path: Path, environment: dict[str, str]) -> None:
    (tmp_path / "rows.csv").write_text("q,target\nSay a.,a\n")
    file = tmp_path / "rows.yaml"
    file.write_text(
        "{task: {path: rows.csv, prompt: '{{ q }}', checks: exact_match}, model: simulated/1}"
    )
    ended = harness("run", file, env=environment)
    assert ended.returncode == 0, ended.stderr
    assert "name: jsonl" in (tmp_path / "runs/rows/config.yaml").read_text()


ONE_FILE = """
task:
  rows:
    - {question: 'The sea?', target: Caspian}
    - {question: 'The river?', target: Volga, checks: {short: {at_most: 1}}}
  checks:
    - contains: {ignore_case: true}
    - word_count: {at_most: 10}
      as: short
matrix:
  task.prompt: {plain: '{{ question }}', brief: 'One word. {{ question }}'}
  model: [simulated/1, simulated/0]
"""


def test_rows_prompts_and_models_in_one_file(tmp_path: Path, environment: dict[str, str]) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(ONE_FILE)
    ended = harness("run", file, env=environment)
    assert ended.returncode == 0, ended.stderr
    variants = ("plain.simulated-1", "plain.simulated-0", "brief.simulated-1", "brief.simulated-0")
    for variant in variants:
        found = json.loads((tmp_path / f"runs/mine.{variant}/metrics.json").read_bytes())
        assert found["overall"]["pass_rate"] == int(variant[-1])
    again = harness("run", file, "--name", "slow", "-o", "model.gain=0.1", env=environment)
    assert again.returncode == 0, again.stderr
    assert "gain: 0.1" in (tmp_path / "runs/slow.brief.simulated-0/config.yaml").read_text()
    wrong = harness("run", file, "-o", "model=simulated/0.5", env=environment)
    assert "an override has no effect" in mistake(wrong)


CHECKS = {"contains", "exact_match", "numeric_match"} & {*kind("checkers").names()}


@pytest.mark.parametrize("check", sorted(CHECKS))
def test_a_row_of_a_run_file_without_a_target_is_named(
    tmp_path: Path, environment: dict[str, str], check: str
) -> None:
    file = tmp_path / "mine.yaml"
    for missing in ("null", ".nan", "''"):
        file.write_text(
            f"task: {{rows: [{{prompt: a, target: '1'}}, {{prompt: b, target: {missing}}}], "
            f"checks: {check}}}\nmodel: simulated\n"
        )
        said = mistake(harness("run", file, env=environment))
        assert f"{file}, task.rows, item 2: the check {check!r} needs a target" in said
        assert f'"checks": {{"{check}": null}}' in said


def test_rows_that_a_simulated_model_cannot_answer_are_counted(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    file = tmp_path / "mine.yaml"
    rows = "{prompt: a}, {prompt: b}, {prompt: c, gold: three words only}"
    checks = "[{word_count: {at_least: 3}}]"
    file.write_text(f"task: {{rows: [{rows}], checks: {checks}}}\nmodel: simulated/1\n")
    ended = harness("run", file, env=environment)
    said = "The simulated model knows no correct answer to 2 of 3 instances"
    assert f"mine: {said}" in ended.stderr
    if has_verb("show"):
        assert said in " ".join(harness("show", "mine", env=environment).stdout.split())
    if has_run_step("dry_run"):
        planned = harness("run", file, "--dry-run", env=environment)
        assert said in " ".join(planned.stdout.split())
    listed = " ".join(harness("ls", env=environment).stdout.split())
    assert "knows no correct answer to some or all instances of mine." in listed
    file.write_text(file.read_text().replace("{prompt: a}, {prompt: b}, ", ""))
    assert "knows no" not in harness("run", file, "--fresh", env=environment).stderr


def test_tasks_with_names_in_one_file(tmp_path: Path, environment: dict[str, str]) -> None:
    file = tmp_path / "two.yaml"
    file.write_text("""
matrix:
  task:
    seas: {rows: [{prompt: 'The sea?', target: Caspian}], checks: contains}
    rivers: {rows: [{prompt: 'The river?', target: Volga}], checks: contains}
model: simulated/1
""")
    ended = harness("run", file, env=environment)
    assert ended.returncode == 0, ended.stderr
    assert "jsonl:seas" in ended.stdout
    assert "jsonl:rivers" in ended.stdout
    if has_verb("table"):
        assert ended.stdout.startswith("jsonl:seas, jsonl:rivers")
    assert {one.name for one in (tmp_path / "runs").iterdir()} == {"two.seas", "two.rivers"}


def test_models_with_names_and_options(tmp_path: Path, environment: dict[str, str]) -> None:
    file = tmp_path / "named.yaml"
    with MockServer(models=["same"]) as server:
        file.write_text(f"""
task: {{rows: [{{prompt: 'The sea?', target: Caspian}}], checks: contains}}
matrix:
  model:
    local: {{backend: openai, base_url: '{server.base_url}', name: same}}
    slow: {{backend: openai, base_url: '{server.base_url}', name: same, service_tier: flex}}
    weak: simulated/0
""")
        ended = harness("run", file, env=environment | {"OPENAI_API_KEY": "key"})
    assert ended.returncode == 0, ended.stderr
    rows = [line.split() for line in ended.stdout.splitlines()[2:5]]
    assert [row[0] for row in rows] == ["local", "slow", "weak"]
    assert {"named.local", "named.slow", "named.weak"} == {
        one.name for one in (tmp_path / "runs").iterdir()
    }


def test_rows_in_a_run_file_need_a_cache_folder_that_can_be_written(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("task: {rows: [{prompt: a, target: b}], checks: contains}\nmodel: simulated\n")
    env = {**environment, "HARNESS_CACHE_DIR": str(file)}
    for options in ([], ["--dry-run"]):
        said = mistake(harness("run", file, *options, env=env))
        assert f"Cannot write {file}" in said
        assert "set HARNESS_CACHE_DIR to another folder" in said


def test_rows_in_a_run_file_are_a_list(tmp_path: Path, environment: dict[str, str]) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("task: {rows: mine.csv, checks: contains}\nmodel: simulated\n")
    assert "task.path: mine.csv" in mistake(harness("run", file, env=environment))
    file.write_text("task: {rows: [{prompt: a}], path: x}\nmodel: simulated\n")
    assert "both given" in mistake(harness("run", file, env=environment))
    file.write_text("task: {rows: [{prompt: a, target: 4}], checks: contains}\nmodel: simulated\n")
    said = mistake(harness("run", file, env=environment))
    assert "item 1: contains: Option 'target' of the checker 'contains': must be text" in said
    file.write_text("task: {rows: [{prompt: a}]}\nmodel: sk-SECRET\n")
    assert "SECRET" not in mistake(harness("run", file, env=environment))
    file.write_text("task: {rows: [{prompt: a}]}\nmodel: nothing/x\n")
    assert "no backend or preset named 'nothing'" in mistake(harness("run", file, env=environment))
