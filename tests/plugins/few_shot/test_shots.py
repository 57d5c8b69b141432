from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.config.sections import ShotsSection
from harness.engine.plan import RunPlan
from harness.errors import ConfigError, DataInvalid, ShotLeaks
from harness.plugins.estimates.estimate import count_work
from harness.plugins.few_shot.shots import Mistake, Mistakes, Shots, masked, mistakes_of
from harness.records import (
    SCHEMA_VERSION,
    Attempt,
    Instance,
    Message,
    Outcome,
    Score,
    messages_hash,
)
from harness.scoring.validators import score_document
from harness.store.index import AttemptIndex
from harness.store.run_folder import RunFolder
from tests.conftest import Sums, run_file
from tests.plugins.few_shot.shown import Fact, Facts, chosen, fact, selection

A, B, C = fact("a"), fact("b"), fact("c")


def shown(task: Facts, **section: Any) -> list[tuple[str, str]]:
    """The prompt of a task's first instance."""
    found = selection(task, **section).messages(task.all[0])
    return [(message.role, message.content) for message in found]


def test_each_shot_is_a_user_turn_and_an_assistant_turn() -> None:
    assert shown(Facts(A, B, C), n=2) == [
        ("user", "b?"), ("assistant", "b!"), ("user", "c?"), ("assistant", "c!"), ("user", "a?"),
    ]  # fmt: skip


def test_one_message_holds_prompts_and_answers() -> None:
    assert shown(Facts(A, B, C), n=2, form="message") == [("user", "b?\nb!\n\nc?\nc!\n\na?")]


def test_a_task_may_write_its_shots_itself() -> None:
    assert shown(Facts(A, B, C), n=2, form="task") == [("user", "b?=b!;c?=c!;a?")]


@pytest.mark.parametrize("form", ["turns", "message"])
def test_a_system_message_occurs_once(form: str) -> None:
    found = shown(Facts(A, B, C, system="Be brief."), n=2, form=form)
    assert found[0] == ("system", "Be brief.")
    assert [role for role, _ in found].count("system") == 1


def test_a_shot_with_a_different_system_message_is_refused() -> None:
    task, source = Facts(A, B), Facts(B, C, system="Be long.")
    with pytest.raises(ConfigError, match="system message differs from the instance's"):
        selection(task, pool=source).check(list(task.instances()))


def test_prompts_of_several_turns_do_not_fit_into_one_message() -> None:
    task = Facts(A, B, user_messages=2)
    assert [role for role, _ in shown(task)] == ["user", "user", "assistant", "user", "user"]
    with pytest.raises(ConfigError, match=r"several turns.*Set task\.shots\.form to turns"):
        selection(task, form="message").check(list(task.instances()))


class Broken(Shots):
    """Chooses the given shots."""

    shot: Instance[Fact]

    def of(self, instance: Instance[Any]) -> list[Instance[Any]]:
        return [self.shot]


@pytest.mark.parametrize("form", ["turns", "message", "task"])
@pytest.mark.parametrize(
    "shot",
    [
        fact("a", asked="?", gold="other"),
        fact("b", asked="a?"),
        fact("b", gold="a!"),
        fact("b", gold=None),
    ],
    ids=["the instance itself", "the same prompt", "right here too", "no answer"],
)
def test_a_leak_is_refused_however_the_shot_was_chosen(shot: Instance[Fact], form: Any) -> None:
    task = Facts(A, B)
    broken = Broken(task, ShotsSection(n=1, form=form), task)
    broken.shot = shot
    with pytest.raises(ShotLeaks, match=f"The shot '{shot.id}' reveals the answer to 'a'"):
        broken.messages(A)
    broken.shot = B
    assert broken.messages(A)


def test_too_few_shots_are_refused_before_any_call() -> None:
    task = Facts(A, B)
    with pytest.raises(ConfigError, match="only 1 of 2 shots"):
        selection(task, n=2).check(list(task.instances()))
    allowed = selection(task, n=2, allow_fewer=True)
    allowed.check(list(task.instances()))
    assert allowed.lacking == 2


def plan(task: Any, **section: Any) -> RunPlan:
    run = run_file(task={"name": "sums", "shots": section or 0})
    shots = selection(task, **section) if section else None
    return RunPlan(task, run, list(task.instances()), AttemptIndex(Path("none")), shots=shots)


def test_zero_shot_and_few_shot_runs_pair_by_cluster() -> None:
    task = Sums(4)
    zero, two = plan(task), plan(task, n=2)
    for instance in task.instances():
        bare, few = zero.opening(instance), two.opening(instance)
        assert bare.messages == few.messages[-1:] == task.messages(instance, ())
        assert len(few.messages) == 5
        assert bare.cluster == few.cluster == messages_hash(bare.messages)


def test_a_coarser_cluster_stays() -> None:
    instance = Instance("sum/0", 0, {}, "all")
    assert plan(Sums(4), n=2).opening(instance).cluster == "all"


def test_the_dry_run_prices_the_shots() -> None:
    task = Sums(6)
    found = [
        count_work(one, lambda request: repr(request.messages), lambda _: False)
        for one in (plan(task), plan(task, n=1), plan(task, n=3))
    ]
    for fewer, more in pairwise(found):
        assert fewer.model.input_tokens.low * 2 < more.model.input_tokens.low
    assert found[1].first == (
        Message("user", "What is 1 + 1?"),
        Message("assistant", "2"),
        Message("user", "What is 0 + 0?"),
    )


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("98 of 100 words", "# of # words"),
        ("3.5, not 1,000", "#, not #"),
        ("lacks 'snow'", "lacks '…'"),
        ("lacks 'don't', 'the boys' and 2 more", "lacks '…' and # more"),
        ("says \"7 'a' b\" and “c”", "says '…' and '…'"),
        ("the last words: 'cut of…", "the last words: '…'"),
        ("1, 2, 3, not 4", "#, not #"),
        ("the user's words", "the user's words"),
        ("", ""),
    ],
)
def test_parts_that_differ_by_instance_are_masked(reason: str, expected: str) -> None:
    assert masked(reason) == expected


def attempt(
    instance: str,
    *reasons: str,
    sample: int = 0,
    round: int = 1,
    outcome: Outcome = "ok",
    passed: bool | None = False,
    **more: Any,
) -> Attempt:
    scores: Mapping[str, Score] = {
        f"s{number}": Score(False, False, reason) for number, reason in enumerate(reasons)
    }
    return Attempt(
        v=SCHEMA_VERSION, instance=instance, sample=sample, round=round, groups={}, cluster="c",
        request={}, outcome=outcome, started_at=0, ended_at=0, passed=passed, scores=scores, **more,
    )  # fmt: skip


def test_every_failed_score_is_a_mistake() -> None:
    assert mistakes_of(attempt("a", "3 of 4", "no")) == [
        Mistake("s0", "# of #"),
        Mistake("s1", "no"),
    ]
    assert mistakes_of(attempt("a", "3 of 4", passed=True)) == []
    assert mistakes_of(attempt("a", outcome="error", passed=None)) == []
    unread = attempt("a", outcome="unparseable", error="'x7' is no number")
    assert mistakes_of(unread) == [Mistake("unparseable", "'…' is no number")]


def test_every_violated_keyword_of_a_schema_is_a_mistake() -> None:
    found = score_document('{"a": 5, "b": "x"}', {"additionalProperties": {"maximum": 3}})
    schema = {"required": ["c"], "properties": {"a": {"maximum": 3}, "b": {"maxLength": 0}}}
    many = score_document('{"a": 5, "b": "x"}', schema)
    assert mistakes_of(scored(found)) == [Mistake("valid", "maximum")]
    assert sorted(mistakes_of(scored(many))) == [
        Mistake("valid", keyword) for keyword in ("maxLength", "maximum", "required")
    ]


@pytest.mark.parametrize(
    "keywords", [{}, [], "maximum", {"maximum": 0}, {"maximum": "often"}, None]
)
def test_a_score_without_keywords_is_a_mistake_by_its_reason(keywords: Any) -> None:
    told = {"valid": Score(False, False, "5 is more", {"keywords": keywords})}
    assert mistakes_of(scored(told)) == [Mistake("valid", "# is more")]


def scored(scores: Mapping[str, Score]) -> Attempt:
    return msgspec.structs.replace(attempt("a"), scores=scores)


def mistakes(folder: Path, *attempts: Attempt) -> Mistakes:
    path = folder / "attempts.jsonl"
    path.write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in attempts))
    return Mistakes(RunFolder(folder.parent, folder.name))


def test_the_most_frequent_kinds_take_turns(tmp_path: Path) -> None:
    found = mistakes(
        tmp_path,
        attempt("d", "rare 1"),
        attempt("c", "often 1"),
        attempt("b", "often 2"),
        attempt("e", "often 3"),
        attempt("e", "often 4", sample=1),
        attempt("f", "rare 2"),
        attempt("b", "rare 2", sample=1),
        attempt("g", "once"),
    )
    # often: e twice, then b, c; rare: b (taken), d, f; once: g; a made none.
    assert found.order(list("abcdefg")) == ["e", "b", "g", "c", "d", "f", "a"]
    assert found.order(list("adf")) == ["d", "f", "a"]
    assert found.order([]) == []


def test_the_last_line_of_a_key_and_the_first_round_of_a_sample_count(tmp_path: Path) -> None:
    found = mistakes(
        tmp_path,
        attempt("b", "x"),
        attempt("b", passed=True),
        attempt("c", "y", round=2),
        attempt("d", "z", sample=5),
    )
    assert found.order(list("abcd")) == ["d", "a", "b", "c"]


def test_a_line_that_is_not_an_attempt_is_refused(tmp_path: Path) -> None:
    (tmp_path / "attempts.jsonl").write_text("{}\n")
    with pytest.raises(DataInvalid, match="line 1"):
        Mistakes(RunFolder(tmp_path.parent, tmp_path.name))


def test_shots_show_the_most_frequent_mistake_of_the_instances_group(tmp_path: Path) -> None:
    task = Facts(*(fact(name, kind="x" if name < "d" else "y") for name in "abcdef"))
    found = mistakes(tmp_path, attempt("f", "p"), attempt("e", "q"), attempt("c", "q"))
    assert chosen(selection(task, n=5, select="errors", run="r", mistakes=found)) == list("cfebd")
    within = selection(task, n=1, select="errors", run="r", mistakes=found, within=["kind"])
    assert [chosen(within, number) for number in range(6)] == [
        ["c"], ["c"], ["a"], ["f"], ["f"], ["e"],
    ]  # fmt: skip


def test_the_most_frequent_keyword_is_shown_first(tmp_path: Path) -> None:
    task = Facts(*(fact(name) for name in "abcde"))
    violated = {
        "b": {"type": 9},
        "c": {"maximum": 1},
        "d": {"maximum": 1, "type": 1},
        "e": {"maximum": 1},
    }
    told = [
        msgspec.structs.replace(
            attempt(name), scores={"valid": Score(False, False, name, {"keywords": counts})}
        )
        for name, counts in violated.items()
    ]
    keys = {"select": "errors", "run": "r", "mistakes": mistakes(tmp_path, *told)}
    assert chosen(selection(task, n=3, **keys)) == ["c", "b", "d"]


def test_shots_across_groups_show_the_mistakes_of_each_group(tmp_path: Path) -> None:
    task = Facts(*(fact(name, kind="x" if name < "d" else "y") for name in "abcdef"))
    found = mistakes(tmp_path, attempt("f", "p"), attempt("e", "q"), attempt("c", "q"))
    taught = selection(task, n=4, select="errors", run="r", mistakes=found, across="kind")
    assert chosen(taught) == list("cfbe")


def test_other_mistakes_change_the_fingerprint(tmp_path: Path) -> None:
    task = Facts(fact("a"), fact("b"))
    keys = {"select": "errors", "run": "r"}
    one = selection(task, mistakes=mistakes(tmp_path, attempt("b", "p")), **keys).fingerprint()
    two = selection(task, mistakes=mistakes(tmp_path, attempt("a", "p")), **keys).fingerprint()
    assert one != two
