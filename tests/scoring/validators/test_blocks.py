"""The blocks of replies that hold structured answers."""

import time

import pytest

from harness.errors import ConfigError, Unparseable
from harness.scoring.validators import BlockExtraction, NoAnswerBlock


@pytest.mark.parametrize(
    ("way", "text", "answer"),
    [
        ("whole", " x ", " x "),
        ("fence", "Here:\n```json\n[1]\n```\nor\n```\n[2]\n```", "[1]\n"),
        ("fence", "```\n5\n```", "5\n"),
        ("fence", "```\nname: x\n", "name: x\n"),
        ("fence", "```yaml\r\na: 1\r\n```", "a: 1\r\n"),
        ("fence", '```json {"a": 1}```', '{"a": 1}'),
        ("fence", '```{"a": 1}```', '{"a": 1}'),
        ("fence", "```true```", "true"),
        ("fence", "```null\n```", "null\n"),
        ("fence", "```xml\n<all/>\n```", "<all/>\n"),
        ("fence", "```xml<all/>```", "<all/>"),
        ("fence", "````\na ``` b\n````", "a ``` b\n"),
        ("fence", "```\n```", ""),
        ("last_fence", "```\n1\n```\n```json\n2\n```", "2\n"),
        ("last_fence", "```\n1\n```\n```", "1\n"),
        ("last_fence", "```\n1\n```\n```\n2", "2"),
        ("open_fence", "[1]\n```\nAs asked.", "[1]\n"),
        ("open_fence", "[1]", "[1]"),
        ("open_fence", "json\n[1]\n```", "[1]\n"),
        ("open_fence", "\n```json\n[1]\n```", "[1]\n"),
        ("open_fence", "Here is a sample:\n\n```json\n[1]\n```\nAs asked.", "[1]\n"),
        ("open_fence", "a:\n```\nThe value is null:", "a:\n"),
        ("tags:answer", "<answer>5</answer><answer>6</answer>", "5"),
        ("tags:answer", "So <answer>\n5", "\n5"),
        ("brackets:SAMPLE", "[SAMPLE]\n[1]\n[/SAMPLE]\n\n[SAMPLE]", "\n[1]\n"),
        ("json", 'It is {"a": [1, "}"]}, surely.', '{"a": [1, "}"]}'),
        ("json", "see [note]: [1, 2]", "[1, 2]"),
        ("json", ' "a [1]" ', '"a [1]"'),
        ("json", "5", "5"),
        ("json", 'So {"a": 1,}', '{"a": 1,}'),
        ("json", "[" + "9" * 5_000 + "]", "[" + "9" * 5_000 + "]"),
    ],
)
def test_the_answer_is_found(way: str, text: str, answer: str) -> None:
    assert BlockExtraction(way).read(text) == answer


@pytest.mark.parametrize(
    ("way", "text", "wanted"),
    [
        ("fence", "No block.", "no fence"),
        ("last_fence", "```", "no fence"),
        ("open_fence", "\n```", "no text before the closing fence"),
        ("open_fence", "", "no text before the closing fence"),
        ("tags:answer", "<Answer>5</Answer>", "no <answer>"),
        ("brackets:SAMPLE", "[sample]", r"no \[SAMPLE\]"),
        ("json", "It is five.", "no JSON object"),
    ],
)
def test_no_answer_block_is_told_from_unparseable(way: str, text: str, wanted: str) -> None:
    with pytest.raises(NoAnswerBlock, match=f"no answer block: .*{wanted}") as missing:
        BlockExtraction(way).read(text)
    assert isinstance(missing.value, Unparseable)
    assert missing.value.kind == "no answer block"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("fense", "no extraction 'fense'. Did you mean 'fence'"),
        ("tags", "needs the name of its tag. Write tags:answer"),
        ("tags:", "needs the name of its tag"),
        ("brackets:a b", "needs the name of its tag"),
        ("fence:json", "no extraction 'fence:json'"),
        ("", "no extraction ''"),
    ],
)
def test_a_mistyped_name_is_a_config_error(name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        BlockExtraction(name)


@pytest.mark.parametrize("text", ["```yaml\n```", "```json\n\n```", "```YML```", "x ```xml\n``` y"])
def test_a_fence_with_the_name_of_a_format_alone_is_empty(text: str) -> None:
    assert BlockExtraction("fence").read(text) == ""


@pytest.mark.parametrize("text", ["`" * 300_000 + " " + "`" * 299_999, "``` `` " * 100_000])
def test_fences_take_time_in_proportion(text: str) -> None:
    began = time.process_time()
    assert BlockExtraction("fence").read(text).strip()[:1] == "`"
    assert time.process_time() - began < 5


def test_a_fence_with_another_word_alone_holds_that() -> None:
    assert BlockExtraction("fence").read("```true\n```").strip() == "true"
