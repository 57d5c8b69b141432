"""Whether a prompt asks for what the parser of its answers reads."""

import pytest

from harness.scoring.extraction import build_extraction, misread_answer, prompt_mismatches

FOUR = r"answer is ([A-Za-z]{4})"


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("End with: The answer is <word>", r"answer is (\w+)"),
        ("End with 'The answer is X'.", r"answer is (\d+)"),
        ("The answer is …", r"answer is (\d+)"),
        ("Say what the answer is:", r"answer is (\d+)"),
        ("Q: … The answer is nrdn.\nQ:", FOUR),
        ("Anything", r"^(\w+)$"),
        ("Anything", r"(?:result|answer) (\w+)"),
    ],
)
def test_a_prompt_with_the_structure_of_its_parser_has_no_fault(text: str, pattern: str) -> None:
    assert prompt_mismatches([text], [], build_extraction({"regex": pattern}, "x")) == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("What is it?", "does not ask for what its parser looks for: 'answer is'"),
        ("Q: … The answer is nk.\nQ:", "says 'answer is nk.' where its parser would read no"),
        ("The answer is nk\nnkab nkab", "says 'answer is nk'"),
    ],
)
def test_a_prompt_that_asks_for_something_else_is_told(text: str, fault: str) -> None:
    (found,) = prompt_mismatches([text], [], build_extraction({"regex": FOUR}, "x"))
    assert fault in found


def test_examples_in_turns_are_read_by_the_parser() -> None:
    parser = build_extraction({"regex": FOUR}, "x")
    asked = "End with: The answer is <letters>"
    assert prompt_mismatches([asked], ["The answer is nrdn."], parser) == []
    found = prompt_mismatches([asked], ["It is nrdn."], parser)
    assert found == ["The parser reads no answer in the prompt's example 'It is nrdn.'."]


def test_what_is_asked_for_may_be_written_in_another_case_or_in_an_example() -> None:
    parser = build_extraction({"regex": FOUR}, "x")
    assert prompt_mismatches(["End with: THE ANSWER IS <letters>"], [], parser) == []
    assert prompt_mismatches(["What is it?"], ["The answer is nrdn."], parser) == []


@pytest.mark.parametrize(
    ("pattern", "answer", "read"),
    [
        (FOUR, "nrdn", None),
        (r"^(.+)$", " nrdn ", None),  # spaces around an answer are no part of it
        (FOUR, "nk", ""),
        (r"answer is (\w)", "nrdn", "n"),
        (r"^(\w+)$", "two words", ""),
    ],
)
def test_what_a_parser_reads_in_a_reply_of_its_format(
    pattern: str, answer: str, read: str | None
) -> None:
    assert misread_answer(build_extraction({"regex": pattern}, "x"), answer) == read
