"""Where the answer is in a reply."""

import json
from pathlib import Path

import pytest

from harness.errors import ConfigError, Unparseable
from harness.scoring.extraction import Extraction, NoAnswerBlock, extract
from harness.scoring.validators import read


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
    assert extract(text, way) == answer


@pytest.mark.parametrize(
    ("way", "text", "wanted"),
    [
        ("fence", "No block.", "no fence"),
        ("last_fence", "```", "no fence"),
        ("open_fence", "\n```", "nothing stands before"),
        ("open_fence", "", "nothing stands before"),
        ("tags:answer", "<Answer>5</Answer>", "no <answer>"),
        ("brackets:SAMPLE", "[sample]", r"no \[SAMPLE\]"),
        ("json", "It is five.", "no JSON object"),
    ],
)
def test_no_answer_block_is_told_from_unparseable(way: str, text: str, wanted: str) -> None:
    with pytest.raises(NoAnswerBlock, match=f"no answer block: .*{wanted}") as missing:
        extract(text, way)
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
        Extraction(name)


def test_first_fences_are_those_that_were_recorded(data_dir: Path) -> None:
    lines = (data_dir / "concodeeval" / "llama3_70b_fences.jsonl").read_text().splitlines()
    fresh = [row for row in map(json.loads, lines) if not row["recorded_parsed_is_stale"]]
    assert len(fresh) == 294
    for row in fresh:
        answer = extract(row["output_text"], "fence")
        assert answer.strip() == row["first_fence"].strip()
        assert read(answer, mode="paper") == row["recorded_parsed"]


@pytest.mark.parametrize("text", ["```yaml\n```", "```json\n\n```", "```YML```", "x ```xml\n``` y"])
def test_a_fence_with_the_name_of_a_format_alone_is_empty(text: str) -> None:
    assert extract(text, "fence") == ""


def test_a_fence_with_another_word_alone_holds_that() -> None:
    assert extract("```true\n```", "fence").strip() == "true"
