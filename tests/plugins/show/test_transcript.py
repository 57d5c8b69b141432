import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from rich.console import Console

from harness.plugins.show.transcript import transcript
from harness.records import Attempt, Score, Usage
from harness.report.text import escape_text
from harness.store.judgements import JudgedAttempt, Judgement

ATTEMPT = Attempt(
    1,
    "sent01/3",
    0,
    1,
    {"structure": "sent01"},
    "c",
    {"messages": [{"role": "user", "content": "Write a sentence."}]},
    "ok",
    0.0,
    1.0,
    text="Snow fell.",
    reasoning="Something short.",
    passed=False,
    scores={"constraints": Score(False, False, "10 of 12 characters")},
    feedback="You wrote 10 characters.",
    call_id="ab12",
    usage=Usage(7, 3),
    latency_s=0.5,
    cached=True,
)


def shown(*attempts: Attempt) -> str:
    file = io.StringIO()
    Console(file=file, width=80, force_terminal=True).print(transcript(attempts))
    return file.getvalue()


def test_an_attempt_is_shown_with_all_that_was_said() -> None:
    text = shown(ATTEMPT)
    for part in (
        "sent01/3", "sample 0", "round 1", "failed", "structure=sent01", "Write a sentence.",
        "Something short.", "Snow fell.", "10 of 12 characters", "You wrote 10 characters.",
        "ab12", "7+3", "0.50",
    ):  # fmt: skip
        assert part in text, part


@pytest.mark.parametrize("text", ["x" * 250_000, "line of text\n" * 20_000, "a\n" + "y" * 150_000])
def test_a_long_answer_is_shown_whole(text: str) -> None:
    parts = "".join(shown(replace(ATTEMPT, text=text)).split())
    assert "".join(text.split()) in parts


@pytest.mark.parametrize(
    "hostile",
    ["\x1b[2J", "\x1b]0;title\x07", "\x00", "\x9b31m", "\u202e", "\u2066", "\r", "[bold]x[/bold]",
     "[link=http://x]y[/link]"],
)  # fmt: skip
def test_nothing_that_a_model_says_is_obeyed(hostile: str) -> None:
    plain = escape_text(f"a{hostile}b").plain
    assert all(letter.isprintable() or letter in "\n\t" for letter in plain)
    if hostile.isprintable():
        assert hostile in plain, "shown as it stands, not taken for markup"


@given(st.text())
def test_any_text_is_inert(text: str) -> None:
    assert all(letter.isprintable() or letter in "\n\t" for letter in escape_text(text).plain)


def test_a_judges_reply_is_shown_with_its_criterion() -> None:
    criteria = [
        {"constraint": "Is it polite?", "votes": [True, False]},
        {"constraint": "Is it short?", "votes": [True]},
    ]
    scores = {"kind.strict": Score(False, False, "", {"constraints": criteria})}
    replies = ("yes", "no", "yes")
    judged = Judgement(1, "kind", "i", 0, 1, "ab", "ok", 0.0, 1.0, scores=scores, replies=replies)
    fields = {name: getattr(ATTEMPT, name) for name in Attempt.__struct_fields__}
    said = shown(JudgedAttempt(**fields, judgements=(judged,)))
    assert said.count("judge kind, Is it polite?:") == 2
    assert said.count("judge kind, Is it short?:") == 1


def test_judgements_stand_beside_the_answer_and_are_not_obeyed() -> None:
    fine = Judgement(1, "kind", "sent01/3", 0, 1, "ab", "ok", 0.0, 1.0, replies=("Y\x1b[2Jes",))
    failed = Judgement(1, "other", "sent01/3", 0, 1, "ab", "error", 0.0, 1.0, error="TimedOut: no")
    fields = {name: getattr(ATTEMPT, name) for name in Attempt.__struct_fields__}
    said = shown(JudgedAttempt(**fields, judgements=(fine, failed)))
    assert "judge kind:" in said
    assert "Y\\x1b[2Jes" in said
    assert "judge other: error, no verdict" in said
    assert "TimedOut: no" in said
    assert "judge" not in shown(ATTEMPT)
