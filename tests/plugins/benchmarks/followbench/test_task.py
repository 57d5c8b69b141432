"""The task: our own instructions, rows that are malformed, and hostile texts."""

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from harness.datasets.folder import DataFolder
from harness.errors import ConfigError, DataInvalid, DataMissing
from harness.plugin_loader import kind
from harness.plugins.benchmarks.followbench.rules import CHECKS, TARGETS, rule_for
from harness.plugins.benchmarks.followbench.task import (
    CATEGORIES,
    WRONG,
    FollowBenchTask,
    read_items,
)

NOWHERE = DataFolder(Path("nowhere"))


def written(path: Path, *rows: Any) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def row(level: int, **changes: Any) -> dict[str, Any]:
    own = {"constraint_type": "content", "example_id": 1, "category": "content", "source": "x"}
    return {**own, "level": level, "instruction": f"Level {level}.", "target": "", **changes}


def test_the_builtin_set_has_all_categories_and_levels() -> None:
    task = FollowBenchTask(data=NOWHERE)
    instances = list(task.instances())
    assert {one.groups["category"] for one in instances} == set(CATEGORIES)
    assert set(Counter(one.groups["level"] for one in instances).values()) == {11}
    assert {one.groups["scored_by"] for one in instances} == {"judge", "rule"}
    assert len({one.cluster for one in instances}) == 11


def test_references_keep_the_rules_and_wrong_answers_break_them() -> None:
    task = FollowBenchTask(data=NOWHERE)
    n = 0
    for one in task.instances():
        reference = task.reference(one)
        if one.data.rule is None:
            assert task.score(one, WRONG) == {}
            assert task.wrong_answer(one) is None
            continue
        assert reference is not None
        assert task.score(one, reference)["rule"].passed is True
        wrong = task.wrong_answer(one)
        assert wrong is not None
        score = task.score(one, wrong)["rule"]
        assert score.passed is task.score_of_no_answer(one)["rule"].passed is False
        assert score.reason in task.feedback(one, wrong, {"rule": score})
        n += 1
    assert n == 35


def test_any_judge_of_criteria_gets_one_per_constraint() -> None:
    task = FollowBenchTask(data=NOWHERE)
    for one in task.instances():
        assert task.instruction(one) == one.data.instruction
        n = 1 if one.data.category == "example" else one.data.level
        assert len(task.criteria(one)) == n
    first = next(task.instances())
    old, new = first.data.evolution
    assert task.criteria(first)[0].text == f"What {new!r} asks for beyond {old!r}."


def test_only_some_categories() -> None:
    task = kind("tasks").build("followbench", {"categories": ["style"]}, data=NOWHERE)
    assert {one.groups["category"] for one in task.instances()} == {"style"}
    with pytest.raises(ConfigError, match="categories"):
        kind("tasks").build("followbench", {"categories": ["stile"]}, data=NOWHERE)


def test_groups_that_a_recording_lacks_are_left_out() -> None:
    options = {"categories": ["example"], "leave_out": ["example/2"]}
    task = kind("tasks").build("followbench", options, data=NOWHERE)
    assert {one.cluster for one in task.instances()} == {"example/1"}


def test_an_instruction_comes_with_those_of_the_levels_before_it(tmp_path: Path) -> None:
    path = written(tmp_path / "own.jsonl", row(0), row(1), row(2))
    first, second = read_items(path)
    assert (first.id, first.evolution) == ("content/1/1", ("Level 0.", "Level 1."))
    assert second.evolution == ("Level 0.", "Level 1.", "Level 2.")
    task = FollowBenchTask(str(path), data=NOWHERE)
    (message,) = task.messages(list(task.instances())[1], ())
    assert message.content == "Level 2."
    assert "again" in task.feedback(next(task.instances()), "anything", {})


def test_a_folder_of_the_authors_files(tmp_path: Path) -> None:
    own = [{k: v for k, v in row(n).items() if k != "constraint_type"} for n in (0, 1)]
    (tmp_path / "style_constraints.json").write_text(json.dumps(own))
    task = FollowBenchTask(str(tmp_path), data=NOWHERE)
    assert [one.id for one in task.instances()] == ["style/1/1"]
    assert task.fingerprint()["dataset_sha256"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataMissing, match="none of the authors' files"):
        FollowBenchTask(str(tmp_path / "empty"), data=NOWHERE)


def test_public_data_that_is_missing_names_its_command() -> None:
    with pytest.raises(DataMissing, match="harness data fetch followbench"):
        FollowBenchTask("public", data=NOWHERE)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([row(1)], "level 1 follows -1"),
        ([row(0), row(2)], "level 2 follows 0"),
        ([row(6)], "level"),
        ([row(0, constraint_type="other")], "constraint_type"),
        ([row(0), row(1, source="CONLL2003", target="Bonn")], "not a list of texts"),
        ([row(1, constraint_type="example", target="A: {answer} {answer}")], "exactly once"),
    ],
)
def test_malformed_rows_are_refused(
    rows: list[dict[str, Any]], message: str, tmp_path: Path
) -> None:
    with pytest.raises(DataInvalid, match=message):
        list(read_items(written(tmp_path / "own.jsonl", *rows)))


def test_numbered_rules_belong_to_the_authors_rows_only(tmp_path: Path) -> None:
    own = [row(n, constraint_type="format", category="format", example_id=22) for n in (0, 1)]
    (item,) = read_items(written(tmp_path / "own.jsonl", *own))
    assert item.rule is None
    theirs = [{**one, "source": "helpful_base"} for one in own]
    (item,) = read_items(written(tmp_path / "theirs.jsonl", *theirs))
    assert item.rule is not None
    assert item.rule.source == "helpful_base/22"


def test_rules_that_count_warn_of_other_scripts(tmp_path: Path) -> None:
    own = [row(n, constraint_type="format", category="format", source="xsum") for n in (0, 1)]
    task = FollowBenchTask(str(written(tmp_path / "own.jsonl", *own)), data=NOWHERE)
    [instance] = task.instances()
    score = task.score(instance, "今天下雨。我在家。")["rule"]
    assert (score.passed, "as in English" in score.details["warning"]) == (True, True)
    assert task.score(instance, "It rains.")["rule"].details == {}


@pytest.mark.parametrize(
    ("source", "level", "text", "reason"),
    [
        ("xsum", 2, "It rains. " * 2, "3 sentences, exactly 1 wanted"),
        ("samsum", 3, "Kim tries it", "lacks 'stuff'"),
        ("gigaword", 1, "one  two", "3 words, exactly 8 wanted"),
        ("koala/30", 1, "plain", "lacks '**'"),
        ("helpful_base/22", 2, "One.\n\nOne. Two.\n\nOne. Two. Three.", "has 3 sentences"),
        ("cnn_dailymail", 3, "Potter. An actor. A film", "sentence 3 lacks 'films'"),
    ],
)
def test_a_rule_says_what_is_wrong(source: str, level: int, text: str, reason: str) -> None:
    name, _, number = source.partition("/")
    rule = rule_for("format", "format", name, int(number or 1), level, "")
    assert rule is not None
    assert reason in rule.violation(text)


@pytest.mark.parametrize(
    ("source", "level", "sentences", "end", "n_words", "passes"),
    [
        ("xsum", 2, 1, ".", 19, True),
        ("xsum", 2, 1, ".", 20, False),
        ("arxiv", 2, 1, ".", 20, True),
        ("arxiv", 2, 1, ".", 21, False),
        ("samsum", 2, 1, ".", 14, True),
        ("samsum", 2, 1, ".", 15, False),
        ("cnn_dailymail", 2, 3, ". ", 14, True),
        ("cnn_dailymail", 2, 3, ". ", 15, False),
        ("helpful_base", 3, 3, ".\n\n", 21, True),
        ("helpful_base", 3, 3, ".\n\n", 20, False),
    ],
)
def test_the_bounds_of_words_are_those_of_the_authors(
    source: str, level: int, sentences: int, end: str, n_words: int, passes: bool
) -> None:
    rule = rule_for("format", "format", source, 22, level, "")
    assert rule is not None
    sentence = " ".join(["word"] * n_words)
    text = end.join([sentence] * sentences) + "."
    assert (rule.violation(text) == "") is passes


@pytest.mark.parametrize(
    ("template", "text", "found"),
    [
        ("{instruction}\nAnswer: {answer}", "Answer: yes", True),
        ("{instruction}\nAnswer: {answer}", "Answer: ", True),
        ("{instruction}\nAnswer: {answer}", "answer: yes", False),
        ("{instruction}\nAnswer: {answer}", "Answer: yes\n", False),
        ("{instruction}\n[Bot]\n{answer}", "[Bot]\nyes", True),
        ("{instruction}\n{{'a': '{answer}'}}", "{'a': 'yes'}", True),
        ("{instruction}\n{{'a': '{answer}'}}", "{'a': '}", False),
    ],
)
def test_a_template_allows_any_answer_in_one_line(template: str, text: str, found: bool) -> None:
    rule = rule_for("example", "example", "", 1, 1, template)
    assert rule is not None
    assert (rule.violation(text) == "") is found


@pytest.mark.parametrize("target", ["[" * 300, "{1: 2}", "['a', 1]", "['a'", "__import__('os')"])
def test_a_list_of_names_is_never_evaluated(target: str) -> None:
    with pytest.raises(ValueError, match="is not a list of texts"):
        rule_for("content", "content", "CONLL2003", 1, 1, target)


HOSTILE = (
    *("**1", "**1:", "is ", "a.b", "(A", ". ", "has ", "x\n\n", "$1", "1.", "is\u00a0", "'{'"),
    *("\n", " ", "-ly ", "e.g. ", "01/", "\\", "\U0001f600"),
)


@pytest.mark.parametrize("piece", HOSTILE)
def test_hostile_texts_take_little_time(piece: str) -> None:
    text = (piece * 100_000)[:100_000]
    checks = [(source, levels[-1]) for source, levels in CHECKS.items()]
    checks += [(source, check("['a']")) for source, check in TARGETS.items()]
    by_template = rule_for("example", "example", "", 1, 5, "{instruction}\nA: {answer}")
    assert by_template is not None
    for source, check in [*checks, ("template", by_template.violation)]:
        started = time.process_time()
        check(text)
        assert time.process_time() - started < 1.0, source
