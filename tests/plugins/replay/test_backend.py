import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.datasets.folder import DataFolder, read_jsonl
from harness.errors import ConfigError, DataInvalid, ReplayMissing, RequestRejected
from harness.plugin_loader import kind
from harness.plugins.replay.backend import ReplayBackend
from harness.records import Decoding, Message, Origin, Reply, Request, Usage


def request(
    prompt: str = "Name a colour.", *, instance: str = "i", sample: int = 0, number: int = 1
) -> Request:
    messages = [Message("system", "Be brief."), Message("user", prompt)]
    for _ in range(1, number):
        messages += [Message("assistant", "an answer"), Message("user", "No.")]
    return Request(
        "gpt-4", tuple(messages), Decoding(), sample, Origin(instance, sample, number), seed=3
    )


def backend(rows: Iterable[Any], match: Any = "prompt") -> ReplayBackend:
    return ReplayBackend("recorded.jsonl", match, read=lambda path: rows)


def row(*texts: str, **named: Any) -> dict[str, Any]:
    return {"rounds": [{"text": text} for text in texts]} | named


async def test_the_answer_is_that_of_the_prompt_whatever_the_instance() -> None:
    replay = backend([row("red", prompt="Name a colour."), row("cat", prompt="Name a pet.")])
    for instance in ("i", "j"):
        reply = await replay.generate(request(instance=instance))
        assert reply == Reply("red", "stop", None, "gpt-4")
    assert (await replay.generate(request("Name a pet."))).text == "cat"


async def test_the_answer_is_that_of_the_instance_whatever_the_prompt() -> None:
    replay = backend([row("red", instance="i"), row("blue", instance="j", prompt="?")], "instance")
    assert (await replay.generate(request(instance="i"))).text == "red"
    assert (await replay.generate(request(instance="j"))).text == "blue"


async def test_ids_may_be_numbers_and_a_finish_reason_null() -> None:
    """Such as those of rows without ids, and of columns without values."""
    rounds = [{"text": "red", "finish_reason": None}]
    replay = backend([{"instance": 1, "rounds": rounds}], "instance")
    assert await replay.generate(request(instance="1")) == Reply("red", "stop", None, "gpt-4")


def test_only_a_recording_by_instance_depends_on_the_instance() -> None:
    assert "by_instance" not in backend([]).features
    assert "by_instance" in backend([], "instance").features
    assert not backend([]).cacheable


def test_a_recording_has_no_logprobs() -> None:
    assert "logprobs" not in backend([]).features


async def test_samples_and_rounds_are_told_apart() -> None:
    prompt = "Name a colour."
    replay = backend(
        [row("red", "blue", prompt=prompt), row("green", "pink", prompt=prompt, sample=1)]
    )
    found = [
        (await replay.generate(request(sample=sample, number=number))).text
        for sample in (0, 1)
        for number in (1, 2)
    ]
    assert found == ["red", "blue", "green", "pink"]


async def test_a_later_round_is_found_by_the_first_prompt() -> None:
    replay = backend([row("red", "blue", prompt="Name a colour.")])
    assert (await replay.generate(request(number=2))).text == "blue"


async def test_what_was_recorded_of_a_round_is_kept() -> None:
    usage = {"input_tokens": 3, "output_tokens": 5}
    rounds = [{"text": "", "finish_reason": "length", "usage": usage}]
    reply = await backend([{"prompt": "Name a colour.", "rounds": rounds}]).generate(request())
    assert reply == Reply("", "length", Usage(3, 5), "gpt-4")


@pytest.mark.parametrize(
    "asked",
    [
        request("A prompt that nobody ever asked."),
        request(sample=1),
        request(number=2),
    ],
)
async def test_a_miss_shows_the_prompts_beginning_and_what_was_asked(asked: Request) -> None:
    replay = backend([row("red", prompt="Name a colour.")])
    with pytest.raises(ReplayMissing) as caught:
        await replay.generate(asked)
    origin = asked.origin
    assert f"recorded.jsonl has no answer for instance 'i', sample {origin.sample}, " in (
        caught.value.message
    )
    assert f"round {origin.round}" in caught.value.message
    assert repr(asked.messages[1].content) in caught.value.message
    assert "rounds.max" in caught.value.remedy


async def test_a_miss_shows_no_more_than_the_beginning() -> None:
    with pytest.raises(ReplayMissing) as caught:
        await backend([]).generate(request("Write\n" + "long " * 1000))
    assert "'Write\\nlong long" in caught.value.message
    assert len(str(caught.value)) < 400
    assert "\n" not in str(caught.value)


async def test_a_miss_may_be_a_failed_call() -> None:
    replay = ReplayBackend("recorded.jsonl", missing="error", read=lambda path: [])
    with pytest.raises(RequestRejected, match=r"recorded\.jsonl has no answer"):
        await replay.generate(request())


async def test_white_space_around_a_prompt_makes_no_difference() -> None:
    rows = [row("exact", prompt="Name. "), row("stripped", prompt="Say.\n")]
    replay = backend(rows)
    assert (await replay.generate(request("Name. "))).text == "exact"
    assert (await replay.generate(request(" Say."))).text == "stripped"


async def test_a_recorded_sample_without_rounds_is_a_miss() -> None:
    with pytest.raises(ReplayMissing):
        await backend([row(prompt="Name a colour.")]).generate(request())


@pytest.mark.parametrize(
    ("damaged", "problem"),
    [
        ({"prompt": "p"}, "missing required field `rounds`"),
        ({"prompt": "p", "rounds": "red"}, "Expected `array`"),
        ({"prompt": "p", "rounds": [{}]}, "missing required field `text`"),
        ({"prompt": "p", "rounds": [{"text": None}]}, "Expected `str`"),
        ({"prompt": 3, "rounds": []}, "Expected `str | null`"),
        ({"prompt": "p", "rounds": [], "sample": "one"}, "Expected `int`"),
        ({"rounds": []}, "has no 'prompt' to match on"),
        ({"instance": "i", "rounds": []}, "has no 'prompt' to match on"),
        ([], "Expected `object`"),
    ],
)
async def test_a_damaged_row_is_named_with_its_number(damaged: Any, problem: str) -> None:
    with pytest.raises(DataInvalid) as caught:
        await backend([row("red", prompt="q"), damaged]).generate(request("q"))
    assert "recorded.jsonl, row 2" in caught.value.message
    assert problem in caught.value.message


async def test_a_row_without_what_is_matched_by_names_the_option() -> None:
    with pytest.raises(DataInvalid, match=r"row 1 has no 'instance'.*Set model\.match"):
        await backend([row("red", prompt="q")], "instance").generate(request())


async def test_two_answers_to_one_prompt_are_refused_and_not_chosen_from() -> None:
    rows = [
        row("red", prompt="Name a colour.", instance="i"),
        row("blue", prompt="Name a colour.", instance="j"),
    ]
    with pytest.raises(
        DataInvalid, match=r"row 2 contradicts an earlier row.*'Name a colour\.'"
    ) as caught:
        await backend(rows).generate(request())
    assert "set model.match to instance" in caught.value.remedy
    assert (await backend(rows, "instance").generate(request(instance="j"))).text == "blue"
    with pytest.raises(DataInvalid, match="Number the rows by 'sample'"):
        await backend([*rows, row("pink", instance="i")], "instance").generate(request())


async def test_the_same_answer_twice_is_one() -> None:
    rows = [row("red", prompt="Name a colour.", instance=name) for name in ("i", "j")]
    assert (await backend(rows).generate(request())).text == "red"


async def test_many_at_once_read_the_recording_once() -> None:
    replay = backend(iter([row("red", prompt="Name a colour.")]))
    replies = await asyncio.gather(*(replay.generate(request()) for _ in range(20)))
    assert {reply.text for reply in replies} == {"red"}
    await replay.aclose()


async def test_a_recording_is_read_through_the_door_of_plug_ins(tmp_path: Path) -> None:
    recorded = tmp_path / "set" / "recorded.jsonl"
    recorded.parent.mkdir()
    recorded.write_bytes(
        b"\n".join(
            msgspec.json.encode(row(text, prompt=prompt))
            for prompt, text in {"Name a colour.": "rot\nund ä", "q": "x"}.items()
        )
    )
    data = DataFolder(tmp_path)
    replay = kind("backends").build(
        "replay",
        {"path": "set/recorded.jsonl"},
        read=lambda name: read_jsonl(data.file(name)),
        gold=None,
        secret=None,
    )
    assert (await replay.generate(request())).text == "rot\nund ä"


def test_there_are_two_ways_to_match() -> None:
    with pytest.raises(ConfigError, match=r"Option 'match'.*'prompt' or 'instance'"):
        kind("backends").validate_options("replay", {"path": "x", "match": "hash"})


def own_form(
    rows: Iterable[Any], columns: dict[str, str], where: dict[str, Any] | None = None
) -> ReplayBackend:
    return ReplayBackend("own.jsonl", "instance", columns, where, read=lambda path: rows)


async def test_a_recording_in_a_form_of_its_own_is_read_by_its_columns() -> None:
    rows = [{"task": "t", "index": number, "output": f"answer {number}"} for number in range(3)]
    replay = own_form(rows, {"instance": "{task}/{index}", "text": "output"})
    assert (await replay.generate(request(instance="t/2"))).text == "answer 2"
    rows = [{"q": "Name a colour.", "n": 1, "a": "red", "why": "length"}]
    columns = {"prompt": "q", "sample": "n", "text": "a", "finish_reason": "why"}
    replay = ReplayBackend("own.jsonl", "prompt", columns, read=lambda path: rows)
    reply = await replay.generate(request(sample=1))
    assert (reply.text, reply.finish_reason) == ("red", "length")


async def test_only_the_rows_that_are_asked_for_are_replayed() -> None:
    rows = [{"id": "i", "shots": n, "text": f"with {n}"} for n in range(4)]
    columns = {"instance": "id", "text": "text"}
    assert (await own_form(rows, columns, {"shots": 2}).generate(request())).text == "with 2"
    assert (await own_form(rows, columns, {"shots": [3, 9]}).generate(request())).text == "with 3"
    with pytest.raises(DataInvalid, match="No row of own"):
        await own_form(rows, columns, {"shots": "2"}).generate(request())
    with pytest.raises(DataInvalid, match="no column 'shot'") as missing:
        await own_form(rows, columns, {"shot": None}).generate(request())
    assert missing.value.remedy == "Did you mean 'shots'?"
    with pytest.raises(DataInvalid, match="contradicts an earlier row"):
        await own_form(rows, columns).generate(request())


async def test_a_column_that_is_not_there_is_named() -> None:
    with pytest.raises(ConfigError, match=r"there is no 'answer'") as told:
        own_form([], {"answer": "text"})
    assert "Did you mean" in told.value.remedy or "prompt" in told.value.remedy
    for columns in ({"instance": "{taks}/1", "text": "text"}, {"instance": "taks", "text": "text"}):
        with pytest.raises(DataInvalid, match=r"row 1 has no column 'taks'") as missing:
            await own_form([{"task": "t", "text": ""}], columns).generate(request())
        assert "task" in missing.value.remedy


async def test_the_prompt_is_the_last_thing_said_before_the_first_answer() -> None:
    """Turns before it, of shots say, are no prompt that was recorded."""
    replay = backend([row("red", "blue", prompt="Name a colour."), row("one", prompt="A shot?")])
    shot = (Message("user", "A shot?"), Message("assistant", "one"))
    for number, text in ((1, "red"), (2, "blue")):
        asked = request(number=number)
        asked = msgspec.structs.replace(asked, messages=(*shot, *asked.messages[1:]))
        assert (await replay.generate(asked)).text == text
