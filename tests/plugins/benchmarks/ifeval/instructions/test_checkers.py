"""Verifiable instructions as checkers of any row."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.datasets.folder import DataFolder
from harness.errors import ConfigError
from harness.plugin_loader import kind
from harness.plugins.benchmarks.ifbench.instructions import IFBENCH, TRAINING
from harness.plugins.benchmarks.ifeval.instructions.ifeval import CHECKS as IFEVAL
from harness.records import Instance
from harness.tasks import JsonlTask

WORDS = "ifeval:length_constraints/number_words"
NO_ROW: Instance[Any] = Instance("x", None)


def test_every_instruction_is_a_checker() -> None:
    names = kind("checkers").names()
    for benchmark, ids in (("ifeval", IFEVAL), ("ifbench", IFBENCH | TRAINING)):
        assert {f"{benchmark}:{name.replace(':', '/')}" for name in ids} <= set(names)
        assert benchmark not in names
    with pytest.raises(ConfigError, match="number_words"):
        kind("checkers").load("ifeval:length_constraints/number_word")


def test_a_checker_has_the_instructions_arguments_as_options() -> None:
    checker = kind("checkers").build(WORDS, {"num_words": 3, "relation": "at least"})
    assert checker.check("one two three", NO_ROW).passed is True
    score = checker.check("one two", NO_ROW)
    assert (score.passed, score.reason) == (False, "2 words, at least 3 wanted")
    with pytest.raises(ConfigError, match="relation"):
        kind("checkers").build(WORDS, {"num_words": 3, "relation": "about"})
    with pytest.raises(ConfigError, match="num_wrods"):
        kind("checkers").build(WORDS, {"num_wrods": 3, "relation": "at least"})


def test_verdicts_may_be_loose_or_corrected() -> None:
    quoted = "ifeval:startend/quotation"
    text = 'Here it is:\n"A quotation."'
    assert kind("checkers").build(quoted, {}).check(text, NO_ROW).passed is False
    assert kind("checkers").build(quoted, {"loose": True}).check(text, NO_ROW).passed is True
    options = {"forbidden_words": ["C#"], "verdicts": "corrected"}
    checker = kind("checkers").build("ifeval:keywords/forbidden_words", options)
    assert checker.check("I like C#.", NO_ROW).passed is False


def test_official_verdicts_on_other_scripts_have_a_warning() -> None:
    options = {"num_words": 3, "relation": "at least"}
    checker = kind("checkers").build(WORDS, options)
    assert "as in English" in checker.check("मुझे यह पसंद है।", NO_ROW).details["warning"]
    assert "verdicts: corrected" in checker.check("我喜欢机器学习。", NO_ROW).details["warning"]
    assert checker.check("Déjà vu – “α”.", NO_ROW).details == {}
    comma = kind("checkers").build("ifeval:punctuation/no_comma", {})
    assert comma.check("我喜欢机器学习。", NO_ROW).details == {}


@pytest.mark.parametrize("comma", "，、،､﹐՝")
def test_the_corrected_check_knows_the_commas_of_other_scripts(comma: str) -> None:
    text = f"猫{comma} 狗"
    for verdicts, passed in (("official", True), ("corrected", False)):
        checker = kind("checkers").build("ifeval:punctuation/no_comma", {"verdicts": verdicts})
        assert checker.check(text, NO_ROW).passed is passed


def test_a_slow_pattern_gives_no_verdict() -> None:
    checker = kind("checkers").build("ifeval:keywords/existence", {"keywords": ["(a|a)*$"]})
    assert checker.check("a" * 60 + "b", NO_ROW).value is None


def test_rows_and_run_files_name_them(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    rows = [
        {"prompt": "Write.", "least": 2},
        {
            "prompt": "List.",
            "checks": [{"ifeval:detectable_format/number_bullet_lists": {"num_bullets": 2}}],
        },
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = {"num_words": {"field": "least"}, "relation": "at least"}
    checks = [{WORDS: options, "as": "words"}]
    task = JsonlTask(str(path), checks=checks, data=DataFolder(tmp_path))
    first, second = task.instances()
    assert task.score(first, "one")["words"].reason == "1 word, at least 2 wanted"
    assert task.score(first, "one two")["words"].passed is True
    assert [score.passed for score in task.score(second, "* a\n* b").values()] == [True]


def test_without_icu_there_is_no_count() -> None:
    code = """
import sys
sys.modules["icu4py"] = sys.modules["icu4py.breakers"] = None
from harness.plugin_loader import kind
from harness.records import Instance
words = {"num_words": 3, "relation": "at least", "verdicts": "corrected"}
checker = kind("checkers").build("ifeval:length_constraints/number_words", words)
print(checker.check("我喜欢。", Instance("1", None)).passed)
"""
    command = [sys.executable, "-c", code]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ended.stdout == "None\n"
