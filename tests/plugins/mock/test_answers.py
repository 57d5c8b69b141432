from pathlib import Path

import pytest

from harness.plugins.mock.answers import Answer, invented, read_recording, recorded, truncate
from harness.plugins.mock.wire import MockError, MockRequest, NoAnswer, Turn, count_tokens


def ask(*turns: str, digest: str = "00ff") -> MockRequest:
    roles = ["user", "assistant"] * len(turns)
    return MockRequest(digest, "m", tuple(Turn(r, t) for r, t in zip(roles, turns, strict=False)))


def test_invented_text_is_a_function_of_body_and_choice() -> None:
    assert invented(ask("a"), 0) == invented(ask("a"), 0)
    assert "00ff" in invented(ask("a"), 0)
    texts = {invented(ask("a", digest=d), i) for d in ("00ff", "ff00") for i in range(3)}
    assert len(texts) == 6


def test_recorded_text_by_last_user_message() -> None:
    answer = recorded({"Name a colour.": "Blue."})
    assert answer(ask("Name a colour."), 0) == "Blue."
    assert answer(ask("Hello.", "Hello!", "Name a colour."), 0) == "Blue."


def test_several_texts_of_a_prompt_all_come() -> None:
    answer = recorded({"Name a colour.": ["Blue.", "Red.", "Green."]})
    assert {answer(ask("Name a colour."), i) for i in range(3)} == {"Blue.", "Red.", "Green."}


def test_unrecorded_prompt_shows_its_beginning() -> None:
    with pytest.raises(NoAnswer, match="begins 'Name a number"):
        recorded({"Name a colour.": "Blue."})(ask("Name a number."), 0)


def test_whole_conversation_is_the_better_match(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_text(
        '{"prompt": "Again.", "text": "Blue."}\n\n'
        '{"prompt": [{"role": "user", "content": "A colour?"}, {"role": "assistant", '
        '"content": "Blue."}, {"role": "user", "content": "Again."}], "text": "Red."}\n'
    )
    answer = read_recording(path)
    assert answer(ask("A colour?", "Blue.", "Again."), 0) == "Red."
    assert answer(ask("A number?", "One.", "Again."), 0) == "Blue."


def test_a_recorded_answer_may_tell_how_sure_the_model_was(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_text('{"prompt": "Is it?", "text": "Yes", "logprobs": [{"Yes": -0.1, "No": -2}]}')
    assert read_recording(path)(ask("Is it?"), 0) == Answer("Yes", [{"Yes": -0.1, "No": -2.0}])
    sure, unsure = Answer("Yes", [{"Yes": 0.0}]), Answer("Yes", [{"Yes": -0.7, "No": -0.7}])
    assert recorded({"Is it?": sure})(ask("Is it?"), 0) == sure
    both = recorded({"Is it?": [sure, unsure]})
    assert [both(ask("Is it?"), i) in (sure, unsure) for i in range(2)] == [True, True]
    assert both(ask("Is it?"), 0) != both(ask("Is it?"), 1)


@pytest.mark.parametrize(
    "line",
    [
        '{"prompt": "a"}',
        '{"prompt": "a", "text": "b", "x": 1}',
        '{"prompt": "a", "text": "b", "logprobs": [{}]}',
        '{"prompt": "a", "text": "b", "logprobs": [{"a": "b"}]}',
        "nonsense",
        "[]",
    ],
)
def test_malformed_line_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_text('{"prompt": "a", "text": "b"}\n' + line + "\n")
    with pytest.raises(MockError, match="line 2: "):
        read_recording(path)


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(MockError, match="No such file"):
        read_recording(tmp_path / "absent.jsonl")


def test_cut_text_has_just_the_tokens_allowed() -> None:
    choice = truncate("one two three four", 3)
    assert (choice.text, choice.finish, choice.tokens) == ("one two thre", "length", 3)
    assert truncate("one", 1).finish == "stop"
    assert truncate("one", None).finish == "stop"
    assert count_tokens("") == 0


def test_stop_string_that_is_complete_first_ends_the_text() -> None:
    def stopped(*stop: str) -> tuple[str, str | None]:
        choice = truncate("one two three", None, stop)
        return choice.text, choice.stop

    assert stopped("three", "two") == ("one ", "two")
    assert stopped("four", "") == ("one two three", None)
    # The longer one begins earlier, but the shorter one is written first.
    assert stopped("two three", "wo") == ("one t", "wo")
    assert stopped("one") == ("", "one")


def test_length_counts_after_the_stop_string_and_the_reasoning() -> None:
    assert truncate("one two three", 2, ["three"]).finish == "stop"
    choice = truncate("one two three", 4, ["three"], reasoning="hm" * 6)
    assert (choice.text, choice.finish, choice.stop) == ("one ", "length", None)
    assert (choice.tokens, choice.reasoning_tokens) == (4, 3)
    choice = truncate("one", 2, reasoning="hm" * 6)
    assert (choice.text, choice.finish, choice.reasoning) == ("", "length", "hmhmhmhm")
    assert choice.tokens == 2
