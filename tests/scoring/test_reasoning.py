"""Reasoning is separated from answers by the marks of all known models."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import ConfigError
from harness.scoring.reasoning import KNOWN_MARKS, Prompt, Reasoning, closing_mark

HARMONY = "<|start|>assistant<|channel|>final<|message|>Yes."
KNOWN = Reasoning()


@pytest.mark.parametrize(
    ("text", "answer", "reasoning"),
    [
        ("<think>Hm.</think>\n\nYes.", "Yes.", "Hm."),
        ("\n<think>\nHm.\n</think>Yes.", "Yes.", "Hm."),
        ("\ufeff <think>Hm.</think>  \r\n\r\n  Yes.", "  Yes.", "Hm."),
        ("<think></think>Yes.", "Yes.", ""),
        ('<think>Hm.</think>"Yes."', '"Yes."', "Hm."),
        ('<think>"Hm."</think>Yes.', "Yes.", '"Hm."'),
        ("<THINK>Hm.</Think>Yes.", "Yes.", "Hm."),
        ('<think effort="low">Hm.</think >Yes.', "Yes.", "Hm."),
        ("<thinking>Hm.</thinking>Yes.", "Yes.", "Hm."),
        ("<thought>\nHm.\n</thought>\nYes.", "Yes.", "Hm."),
        ("<reasoning>Hm.</reasoning>Yes.", "Yes.", "Hm."),
        ("<seed:think>Hm.</seed:think>Yes.", "Yes.", "Hm."),
        ("<mm:think>Hm.</mm:think>Yes.", "Yes.", "Hm."),
        ("<longcat_think>Hm.</longcat_think>Yes.", "Yes.", "Hm."),
        ("[THINK]Hm.[/THINK]Yes.", "Yes.", "Hm."),
        ("◁think▷Hm.◁/think▷Yes.", "Yes.", "Hm."),
        ("<|begin_of_thought|>\n\nHm.\n\n<|end_of_thought|>Yes.", "Yes.", "Hm."),
        (
            "<|begin_of_thought|>Hm.<|end_of_thought|>\n\n<|begin_of_solution|>\n\nYes.\n\n"
            "<|end_of_solution|>\n",
            "Yes.\n\n",
            "Hm.",
        ),
        ("<|START_THINKING|>Hm.<|END_THINKING|>Yes.", "Yes.", "Hm."),
        (
            "<|START_THINKING|>Hm.<|END_THINKING|><|START_RESPONSE|>Yes.<|END_RESPONSE|>",
            "Yes.",
            "Hm.",
        ),
        ("<|START_TEXT|>Yes.<|END_TEXT|>", "Yes.", ""),
        (f"<|channel|>analysis<|message|>Hm.<|end|>{HARMONY}<|return|>", "Yes.", "Hm."),
        (f"<|channel|>analysis<|message|>Hm.{HARMONY}", "Yes.", "Hm."),
        (
            "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary"
            f"<|message|>A preamble.<|end|>{HARMONY}",
            "Yes.",
            "Hm.\n\nA preamble.",
        ),
        (f"Hm.<|end|>{HARMONY}", "Yes.", "Hm."),
        ("<|channel|>final<|message|>Yes.<|return|>", "Yes.", ""),
        ("<|channel|>analysis<|message|>Hm. And", "", "Hm. And"),
        ("<|channel|>analysis<|message|>Hm.<|channel|>final<|message|>Yes.", "Yes.", "Hm."),
        (
            "<|channel|>analysis<|message|>Hm.<|channel|>final<|message|>Yes.<|return|>",
            "Yes.",
            "Hm.",
        ),
        (
            "<|channel|>analysis<|message|>A.<|channel|>commentary<|message|>B.<|channel|>final"
            "<|message|>Yes.",
            "Yes.",
            "A.\n\nB.",
        ),
        (
            "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final "
            "<|constrain|>json<|message|>Yes.<|return|>",
            "Yes.",
            "Hm.",
        ),
        ("<|channel|>final <|constrain|>json<|message|>Yes.", "Yes.", ""),
        ("Hm.<|channel|>final<|message|>Yes.", "Yes.", "Hm."),
        ("analysisThe user asks.assistantfinalYes.", "Yes.", "The user asks."),
        ("analysis Hm.assistantfinalYes.", "Yes.", "Hm."),
        ("analysisthe analysis is hard.assistantfinalYes.", "Yes.", "the analysis is hard."),
        ("analysis\nHm.\nassistantfinal\nYes.", "Yes.", "Hm."),
        ("analysis\nHm.\nassistant\nfinal\nYes.", "Yes.", "Hm."),
        ("analysisA.assistantcommentaryB.assistantfinalYes.", "Yes.", "A.assistantcommentaryB."),
        ("Thinking...\nHm.\n...done thinking.\n\nYes.", "Yes.", "Hm."),
        (
            "<think>\nThe tag </think> closes it. No.\n</think>\nYes.",
            "Yes.",
            "The tag </think> closes it. No.",
        ),
        (
            "<think>Close with **</think>**, as in a list:\n- </think>\nNo.</think>Yes.",
            "Yes.",
            "Close with **</think>**, as in a list:\n- </think>\nNo.",
        ),
        (
            "<think>Print:\n```\n</think>\n```\nNo.</think>Yes.",
            "Yes.",
            "Print:\n```\n</think>\n```\nNo.",
        ),
        ("<think>Hm, then </think> yes.", " yes.", "Hm, then"),
        ("<think>Hm. The tag </think> yes.", " yes.", "Hm. The tag"),
        ("<think>A.</think>\nThe tag </think> closes it.", "The tag </think> closes it.", "A."),
        ("<|channel>thought\nHm.<channel|>Yes.", "Yes.", "Hm."),
        ("<|channel>thought\n<channel|>Yes.", "Yes.", ""),
        ("<unused94>thought\nHm.<unused95>Yes.", "Yes.", "Hm."),
        ("[unused16]Hm.[unused17]Yes.", "Yes.", "Hm."),
        ("<|inner_prefix|>Hm.<|inner_suffix|>Yes.", "Yes.", "Hm."),
        ("<|think|>Hm.<|end|><|begin|>assistant<|content|>Yes.<|end|>", "Yes.", "Hm."),
        ("<|think:start|>Hm.<|think:end|>Yes.", "Yes.", "Hm."),
        (
            "<|open|>think<|sep|>Hm.<|close|>think<|sep|><|open|>response<|sep|>Yes."
            "<|close|>response<|sep|><|close|>message<|sep|>",
            "Yes.",
            "Hm.",
        ),
        # The chat template has opened it.
        ("Hm.</think>Yes.", "Yes.", "Hm."),
        ("</think>\n\nYes.", "Yes.", ""),
        ("Hm.<|END_THINKING|><|START_TEXT|>Yes.<|END_TEXT|>", "Yes.", "Hm."),
        ("Hm.◁/think▷Yes.", "Yes.", "Hm."),
        ("The tag is `</think>`. Hm.</think>Yes.", "Yes.", "The tag is `</think>`. Hm."),
        ("Use `x </think>` here. Hm.</think>Yes.", "Yes.", "Use `x </think>` here. Hm."),
        ("Use `x </think> here.\nHm.</think>Yes.", "Yes.", "Use `x </think> here.\nHm."),
        ("Hm.\n```python\nprint(1)\n</think>\nYes.", "Yes.", "Hm.\n```python\nprint(1)"),
        ("Hm\n</think>\n\nYes.", "Yes.", "Hm"),
        ("Hm </think>\nYes.", "Yes.", "Hm"),
        ("Hm. </think> yes", " yes", "Hm."),
        ("Hm.\n</think>\nYes.\n</reasoning>\nNo.", "Yes.\n</reasoning>\nNo.", "Hm."),
        ("Hm.\n</reasoning>\nYes.\n</think>\nNo.", "Yes.\n</think>\nNo.", "Hm."),
        ("It is 5 </think> 5", " 5", "It is 5"),
        ("It is\n</think> yes", " yes", "It is"),
        ("**Hm.**</think>**Yes.**", "**Yes.**", "**Hm.**"),
        ("Hm.</think>- yes\n- no", "- yes\n- no", "Hm."),
        ("Hm.</think>.5", ".5", "Hm."),
        ("- Hm.</think>\n\n- Yes.", "- Yes.", "- Hm."),
        ("| Hm. |\n</think>\n| Yes. |", "| Yes. |", "| Hm. |"),
        ("(Hm.)</think>(Yes.)", "(Yes.)", "(Hm.)"),
        ("The **</think>** tag. Hm.\n</think>\nYes.", "Yes.", "The **</think>** tag. Hm."),
        # A mark of another kind closes it.
        ("<thinking>Hm.</think>Yes.", "Yes.", "Hm."),
        ("<think>Hm.</thinking>\n\nYes.", "Yes.", "Hm."),
        ("[THINK]Hm.</think>Yes.", "Yes.", "Hm."),
        ("<think>The tag `</reasoning>` is wrong. Hm", "", "The tag `</reasoning>` is wrong. Hm"),
        ("<think>I use </reasoning> first.</think>Yes.", "Yes.", "I use </reasoning> first."),
        # It is never closed.
        ("<think>Hm. And", "", "Hm. And"),
        ("[THINK]Hm. And", "", "Hm. And"),
        ("<reasoning>Hm. Yes.", "", "Hm. Yes."),
        ('<think>I close it with "</think>"', "", 'I close it with "</think>"'),
        ("<think>\n\n</think>\n\n", "", ""),
        # Several blocks, and nested ones
        ("<think>A.</think>\n<think>B.</think>\nYes.", "Yes.", "A.\n\nB."),
        ("<think>A.</think><reasoning>B.</reasoning>Yes.", "Yes.", "A.\n\nB."),
        ("<think>A.</think>\n<think>B.", "", "A.\n\nB."),
        ("<think>A. <think>B.</think> C.</think>Yes.", "Yes.", "A. <think>B.</think> C."),
        ("<think>I use <think> first.</think>Yes.", "Yes.", "I use <think> first."),
        ("<think>a</think>b</think>c", "b</think>c", "a"),
        ("<think>a</think>b <think>c</think>", "b <think>c</think>", "a"),
        # An answer that calls tools
        (
            '{"text": "<think>Hm.</think>\\n\\nYes.", "tool_calls": [{"name": "f"}]}',
            '{"text": "Yes.", "tool_calls": [{"name": "f"}]}',
            "Hm.",
        ),
        (
            '{"text": "<think>Hm.</think>", "tool_calls": [{"name": "f"}]}',
            '{"tool_calls": [{"name": "f"}]}',
            "Hm.",
        ),
    ],
)
def test_a_reply_that_begins_with_reasoning_is_separated(
    text: str, answer: str, reasoning: str
) -> None:
    assert KNOWN.separate(text) == (answer, reasoning)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Yes.",
        "Say <think>x</think> twice.",
        "print('<think>x</think>')",
        "```xml\n<think>x</think>\n```",
        "```html\n<p>\n</think>\n</p>\n```",
        "It ends with `</think>`.",
        'It ends with "</think>".',
        "Rome. The **</think>** tag closes.",
        "Rome. The _</think>_ tag closes.",
        "Rome. The ***</think>***, a tag, closes.",
        "Rome\n- </think>: end\n",
        "Rome\n- </think>\n- <br>",
        "Rome\n1. </think> Closes\n",
        "Rome\n# </think>\nIt closes.",
        "Rome\n\n| tag | is |\n|---|---|\n| </think> | End |",
        "Rome\n\n| End | </think> |",
        "Rome. The tag </think> closes.",
        "Rome. The closing mark is </think>.",
        "Rome (</think>) closes.",
        "Rome [</think>] closes.",
        "Rome. It has </think>, which closes.",
        "Rome. It is <code></think></code> here.",
        "Rome. The token </think>\nends it.",
        "Rome. </think>: the end.",
        "<doc><reasoning>x</reasoning></doc>",
        "<reason>x</reason>",
        "<think step by step>. The answer is A.",
        "<thinker>x</thinker>",
        "[think] about it.",
        "analysis of variance",
        "analysisX without an end",
        "Thinking... is hard.",
        "Yes.<|end|>",
        '{"text": "Yes.", "tool_calls": [{"name": "</think>"}]}',
        '{"text": "<think>", "tool_calls": [',
    ],
)
def test_other_answers_are_not_changed(text: str) -> None:
    assert KNOWN.separate(text) == (text, None)


@given(st.text())
def test_text_without_marks_is_not_changed(text: str) -> None:
    if not any(part in text for part in ("<", "[", "◁", "analysis")):
        assert KNOWN.separate(text) == (text, None)


HM = "<think>Hm.</think>Yes."


@pytest.mark.parametrize(
    ("prompt", "separated"),
    [
        (Prompt(["Is it?"]), True),
        (Prompt(["Put your reasoning into <think> tags."]), False),
        (Prompt(["Is it?"], examples=["<think>Hm.</think>Yes."]), True),  # its own reasoning
        (Prompt(["End your reasoning with </THINK>."]), False),
        (Prompt(["Answer: <think step by step>. The answer is <x>"]), True),
        (Prompt(["Use <reasoning> tags."]), True),
        (Prompt(["Is it?\n<think>\n"]), True),  # begins the reply
        (Prompt(["<|user|>Is it?<|assistant|><think>"]), True),
        (Prompt(["Use <think>.\n<think>"]), False),
        (Prompt([], {"constraint": {"regex": r"\<think\>.*"}}), False),
        (Prompt([], {"constraint": {"regex": r"<(?:plan|think)>.*"}}), False),
        (Prompt([], {"constraint": {"regex": r"(?P<think>I think.*)"}}), True),
        (Prompt([], {"constraint": {"grammar": 'root ::= "<" "think" ">" text'}}), False),
        (Prompt([], {"constraint": {"choices": ["<think>", "no"]}}), False),
        (Prompt([], {"constraint": {"json_schema": {"properties": {"think": {}}}}}), True),
        (Prompt([], {"extra": {"guided_regex": "<think>.*"}}), False),
        (Prompt([], {"stop": ["</think>"]}), True),
        (Prompt(["Is it?"], turns=["Use <think> tags."], answers=["No."]), False),
        (Prompt(["Is it?"], turns=["You wrote <think>."], answers=["<think>"]), True),
    ],
)
def test_marks_that_the_prompt_mentions_are_part_of_the_answer(
    prompt: Prompt, separated: bool
) -> None:
    assert (KNOWN.separate(HM, prompt).reasoning is not None) == separated
    assert Reasoning(["think"]).separate(HM, prompt) == ("Yes.", "Hm.")  # stated


def test_the_run_file_states_the_marks() -> None:
    mine = Reasoning([("<plan>", "</plan>"), "mistral"])
    assert mine.separate("<plan>Hm.</plan>Yes.") == ("Yes.", "Hm.")
    assert mine.separate("[THINK]Hm.[/THINK]Yes.") == ("Yes.", "Hm.")
    assert mine.separate(HM) == (HM, None)
    assert Reasoning(["known", ("<plan>", "</plan>")]).separate(HM) == ("Yes.", "Hm.")
    assert Reasoning("keep").separate(HM) == (HM, None)
    for name in {mark.name for mark in KNOWN_MARKS}:
        assert Reasoning([name]).marks
    with pytest.raises(ConfigError, match="there is no mark 'thnk'") as error:
        Reasoning(["thnk"])
    assert "[[OPENING, CLOSING]]" in error.value.remedy


@pytest.mark.parametrize(
    ("answer", "mark", "closing"),
    [
        ("<scratchpad>Hm.</scratchpad>Yes.", "<scratchpad>", "</scratchpad>"),
        ("<scratchpad>Hm. Yes.", "<scratchpad>", "</scratchpad>"),
        ("<plan>Hm.</plan>Yes.", "<plan>", "</plan>"),
        ("\n<inner_thoughts>Hm.</inner_thoughts>\nYes.", "<inner_thoughts>", "</inner_thoughts>"),
        ("<analysis lang='en'>Hm.</analysis> Yes.", "<analysis>", "</analysis>"),
        ("[REASON]Hm.[/REASON]Yes.", "[REASON]", "[/REASON]"),
        ("<|foo|>Hm.", "<|foo|>", "CLOSING"),
        ("<|begin_of_plan|>Hm.<|end_of_plan|>Yes.", "<|begin_of_plan|>", "<|end_of_plan|>"),
        ("◁reflect▷Hm.◁/reflect▷Yes.", "◁reflect▷", "◁/reflect▷"),
        ("<musing>Hm.</musing>Yes.", "<musing>", "</musing>"),
        ("<internal>Hm.</internal>\n\nYes.", "<internal>", "</internal>"),
        ("<ponder>Hm.</ponder><answer>Yes.</answer>", "<ponder>", "</ponder>"),
        ("<working>2 + 2</working>4", "<working>", "</working>"),
        ('<details type="reasoning">Hm.</details>Yes.', "<details>", "</details>"),
        *(
            (answer, None, "")
            for answer in (
                "Yes.",
                "<musing>Hm.",
                "<item>a</item>, <item>b</item>",
                "<name>x</name>\n<age>5</age>",
                "<details><summary>More</summary>x</details>Yes.",
                "<h1>Title</h1>Text",
                "<final>Yes.</final> Indeed.",
                "<html><body>Yes.</body></html>",
                "<?xml version='1.0'?><reasons>x</reasons>",
                "<!DOCTYPE html>",
                "<rationale>the whole document</rationale>\n",
                "<p>Yes.</p> No.",
                "<answer>Yes.</answer> No.",
                "[INST] Yes.",
                "[1] Yes.",
                "<b>Analysis</b>: yes.",
                "The <scratchpad> is empty.",
            )
        ),
    ],
)
def test_an_answer_that_begins_with_an_unknown_mark_is_noticed(
    answer: str, mark: str | None, closing: str
) -> None:
    assert KNOWN.unknown_mark(answer) == mark
    assert Reasoning("keep").unknown_mark(answer) is None
    if mark is not None:
        assert closing_mark(mark) == closing
        assert KNOWN.unknown_mark(answer, Prompt([f"Write {mark.upper()} first."])) is None


HOSTILE: list[Any] = [
    *("<think>", "</think>", "<think>a</think>", "<think><think></think>", "<think ", "`</think>`"),
    *('"</think>"', "```</think>", "<|end|>", "<|channel|>final ", " ", "\n \t", "analysisX"),
    *("<think>\n<thinking>", "<|start|>assistant", "<think a=", "<think" + " " * 1000),
    *("<|channel|>analysis<|message|><|end|>", "<|channel|>analysis<|message|>", "assistant\n"),
    *("**</think>**", "a </think> b ", "- </think>\n", "<b></think></b>", "analysis\n"),
]


@pytest.mark.parametrize("piece", HOSTILE)
@pytest.mark.parametrize("start", ["", "<think>", "```"])
def test_hostile_replies_take_linear_time(start: str, piece: str) -> None:
    text = start + piece * (100_000 // len(piece))
    began = time.process_time()
    KNOWN.unknown_mark(KNOWN.separate(text).answer)
    KNOWN.separate(text + "```")
    assert time.process_time() - began < 1
