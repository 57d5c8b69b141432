"""The 300 recorded prompts of the paper in English, and its recorded XML."""

import json
from pathlib import Path

import jinja2
import pytest

from harness.tasks.concodeeval.representations import read, render

FRAME = Path(__file__).parents[3] / "prompts/concodeeval/natural_language.jinja"
MISTAKEN = ("maximum", "exclusiveMaximum", "maxLength")


@pytest.fixture
def concodeeval(data_dir: Path) -> Path:
    folder = data_dir / "concodeeval"
    if not folder.is_dir():
        pytest.skip("no recorded data of ConCodeEval: set HARNESS_DATA_DIR")
    return folder


def test_the_recorded_prompts_byte_for_byte(concodeeval: Path) -> None:
    template = jinja2.Environment(autoescape=False).from_string(FRAME.read_text("utf-8"))
    lines = (concodeeval / "scalar_schemas.jsonl").read_text("utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    assert len(rows) == 300
    corrected = 0
    for row in rows:
        description = render(row["schema"], "natural_language", wording="paper")
        assert template.render(schema=description, output="JSON") == row["nl_prompt"], row["idx"]
        right = render(row["schema"], "natural_language", wording="corrected")
        mistaken = any(keyword in row["schema"] for keyword in MISTAKEN)
        assert ("less than" in right) == mistaken
        corrected += mistaken
    assert corrected == 146


def test_the_recorded_xml(concodeeval: Path) -> None:
    prompts = json.loads((concodeeval / "prompts.json").read_text("utf-8"))
    shots = prompts["BAM_inference.py:prompt_few_shot_xml"].split("XML format schema:\n")[1:4]
    for shot in shots:
        recorded = shot.split("\nJSON sample:")[0]
        # One line of the recorded three schemas stands eight columns in, where all others
        # of its kind stand twelve in: a slip of whoever pasted it.
        tidy = recorded.replace(
            '\n        <item type="str">thermoses', '\n            <item type="str">thermoses'
        )
        assert render(read(recorded, "xml"), "xml") == tidy


def test_the_recorded_yaml(concodeeval: Path) -> None:
    prompts = json.loads((concodeeval / "prompts.json").read_text("utf-8"))
    shots = prompts["BAM_inference.py:prompt_few_shot_YAML"].split("YAML format schema:\n\n")[1:4]
    for shot in shots:
        recorded = shot.split("\nJSON sample:")[0]
        assert render(read(recorded, "yaml"), "yaml") == recorded
