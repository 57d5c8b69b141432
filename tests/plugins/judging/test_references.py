"""References: labels that are read, and what is matched with a judge's verdicts."""

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.errors import ConfigError, DataInvalid, DataMissing, RunConflict
from harness.plugins.comparisons.judge_verdicts import JudgedAnswer, JudgeVerdict, Said
from harness.plugins.judging.references import (
    JUDGE,
    RULES,
    Label,
    LeftOut,
    VerdictPairs,
    changed_labels,
    keep_labels,
    kept_labels,
    pair_verdicts,
    read_labels,
)
from harness.store.files import write_json
from harness.store.run_folder import RunFolder


def labels(folder: Path, *lines: str) -> Path:
    path = folder / "labels.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_labels_are_read_in_their_order(tmp_path: Path) -> None:
    path = labels(
        tmp_path,
        '{"instance": "a", "sample": 2, "criterion": 0, "label": true, "note": {"by": "me"}}',
        "",
        '{"instance": "a", "criterion": "Be brief.", "label": false, "run": "r"}',
        '{"instance": "b", "label": null}',
    )
    assert read_labels(path) == [
        Label("a", True, 2, 0, note={"by": "me"}),
        Label("a", False, 0, "Be brief.", "r"),
        Label("b", None),
    ]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"instance": "a"}', "label"),
        ('{"instance": "a", "label": "yes"}', "label"),
        ('{"instance": "a", "label": 1}', "label"),
        ('{"instance": "a", "label": true, "smaple": 1}', "smaple"),
        ('{"instance": "a", "label": true, "sample": -1}', "sample"),
        ('{"instance": 3, "label": true}', "instance"),
        ("[" * 3000, "line 2"),
    ],
)
def test_a_line_that_is_no_label_is_named(line: str, said: str, tmp_path: Path) -> None:
    path = labels(tmp_path, '{"instance": "b", "label": true}', line)
    with pytest.raises(DataInvalid, match=said) as raised:
        read_labels(path)
    assert "line 2" in str(raised.value)


def test_one_criterion_is_labelled_once(tmp_path: Path) -> None:
    line = '{"instance": "a", "criterion": 1, "label": true}'
    with pytest.raises(DataInvalid, match=r"line 2: .* labelled in line 1"):
        read_labels(labels(tmp_path, line, line.replace("true", "false")))


def test_labels_are_kept_file_by_file(tmp_path: Path) -> None:
    earlier = tmp_path / "labels" / "j.jsonl"
    earlier.parent.mkdir()
    earlier.touch()
    many = [Label("a", True), Label("b", False, run=tmp_path.name), Label("c", True, run="other")]
    keep_labels(RunFolder(tmp_path.parent, tmp_path.name), "j", "ann.jsonl", many)
    keep_labels(RunFolder(tmp_path.parent, tmp_path.name), "j", "bob.json", many[:1])
    keep_labels(RunFolder(tmp_path.parent, tmp_path.name), "j", "other.jsonl", many[2:])
    kept = kept_labels(tmp_path, "j")
    assert list(kept) == ["ann.jsonl", "bob.json", ""]
    assert read_labels(kept["ann.jsonl"]) == [Label("a", True), Label("b", False)]
    assert kept[""] == earlier, "of version 0.1"
    keep_labels(RunFolder(tmp_path.parent, tmp_path.name), "j", "ann.jsonl", many[1:2])
    assert read_labels(kept["ann.jsonl"]) == [Label("b", False)]


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_text("{}")])
def test_labels_that_were_changed_are_named_and_left_out(
    tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    run = RunFolder(tmp_path, "run")
    run.path.mkdir()
    write_json(run.manifest, {"files": {}})
    for name in ("ann.jsonl", "bob.jsonl"):
        keep_labels(run, "j", name, [Label("a", True)])
    keep_labels(run, "other", "ann.jsonl", [Label("a", True)])
    damage(run.path / "labels" / "j" / "ann.jsonl")
    assert changed_labels(run.path, "j") == ["ann.jsonl"]
    assert kept_labels(run.path, "j").keys() == {"bob.jsonl"}
    assert changed_labels(run.path, "other") == []
    keep_labels(run, "j", "ann.jsonl", [Label("a", False)])
    assert changed_labels(run.path, "j") == []


def test_labels_are_not_kept_during_a_session(tmp_path: Path) -> None:
    """The session would record their earlier states at its end."""
    run = RunFolder(tmp_path, "run")
    with run.lock(), pytest.raises(RunConflict, match="Another process is working"):
        keep_labels(run, "j", "ann.jsonl", [Label("a", True)])
    assert not (run.path / "labels").exists()


def test_no_file_and_no_labels(tmp_path: Path) -> None:
    with pytest.raises(DataMissing):
        read_labels(tmp_path / "none.jsonl")
    with pytest.raises(DataInvalid, match="no labels"):
        read_labels(labels(tmp_path, ""))


YES, NO, NONE = True, False, None


def says(**told: bool | None) -> Said:
    return Said("ok", tuple(JudgeVerdict(name, passed) for name, passed in told.items()))


def answer(*said: Said | None, instance: str = "a", sample: int = 0) -> JudgedAnswer:
    return JudgedAnswer(instance, sample, f"prompt of {instance}", "hash", said)


def rows(pairs: VerdictPairs) -> list[tuple[int, int]]:
    return list(zip(pairs.judge.tolist(), pairs.reference.tolist(), strict=True))


def test_two_judges_are_matched_by_the_texts_of_criteria() -> None:
    pairs = pair_verdicts(
        {
            "r": [
                answer(says(x=YES, y=NO, own=YES), says(y=YES, x=YES, other=NO)),
                answer(says(x=NONE), says(x=NO), instance="b"),
                answer(says(x=YES), None, instance="c"),
                answer(None, says(x=YES, y=YES), instance="d"),
            ]
        },
        JUDGE,
    )
    assert rows(pairs) == [(1, 1), (0, 1), (-1, 0)]
    assert pairs.left_out == LeftOut(only_judge=2, only_reference=3)
    assert pairs.cluster.tolist() in ([0, 0, 1], [1, 1, 0])


def test_a_text_that_stands_twice_is_two_criteria() -> None:
    twice = [
        Said("ok", (JudgeVerdict("x", one), JudgeVerdict("x", two)))
        for one, two in ((1, 0), (1, 1))
    ]
    assert rows(pair_verdicts({"r": [answer(*twice)]}, JUDGE)) == [(1, 1), (0, 1)]


def test_a_reply_that_holds_no_verdict_is_an_abstention_and_a_failed_call_is_none() -> None:
    known = says(x=YES, y=NO)
    pairs = pair_verdicts(
        {
            "r": [
                answer(Said("unparseable", ()), known),
                answer(known, Said("refused", ()), instance="b"),
                answer(Said("error", ()), known, instance="c"),
            ]
        },
        JUDGE,
    )
    assert rows(pairs) == [(-1, 1), (-1, 0), (1, -1), (0, -1)]
    assert pairs.left_out == LeftOut(only_reference=2)


def test_rules_where_they_decide() -> None:
    told = Said(
        "ok",
        (
            JudgeVerdict("x", True, 0.9, False),
            JudgeVerdict("y", True, 0.8),
            JudgeVerdict("z", None, None, True),
        ),
    )
    pairs = pair_verdicts({"r": [answer(told)]}, RULES)
    assert rows(pairs) == [(1, 0), (-1, 1)]
    assert pairs.probability.tolist()[0] == 0.9
    assert pairs.left_out == LeftOut(only_judge=1)


def test_what_a_rule_decided_in_the_judges_place_is_no_verdict_of_its_own() -> None:
    own = Said("ok", (JudgeVerdict("x", True, 1.0, True, by_rule=True), JudgeVerdict("y", False)))
    assert len(pair_verdicts({"r": [answer(own)]}, RULES)) == 0
    pairs = pair_verdicts({"r": [answer(own, says(x=NO, y=YES))]}, JUDGE)
    assert rows(pairs) == [(0, 1)]
    assert pairs.left_out == LeftOut(by_rule=1)
    of_both = pair_verdicts({"r": [answer(own)]}, [Label("a", True, criterion=1)])
    assert rows(of_both) == [(0, 1)]
    other = pair_verdicts({"r": [answer(says(x=NO, y=YES), own)]}, JUDGE)
    assert rows(other) == [(0, 1), (1, 0)], "a reference may go by rules"


def test_labels_by_text_by_place_and_alone() -> None:
    answers = [
        answer(Said("ok", (JudgeVerdict("Be  brief.", True), JudgeVerdict("y", False)))),
        answer(says(correct=YES), instance="b", sample=1),
        answer(None, instance="c"),
        answer(says(x=YES), instance="e"),
    ]
    labels = [
        Label("a", False, criterion="Be brief."),
        Label("a", False, criterion=1),
        Label("b", True, 1),
        Label("c", True, criterion=0),  # not judged
        Label("a", True, criterion=2),  # no such criterion
        Label("b", True, 0),  # no such sample
        Label("d", True),  # no such instance
        Label("e", True, attempt="of another text"),
        Label("a", True, run="another"),
    ]
    pairs = pair_verdicts({"r": answers}, labels)
    assert rows(pairs) == [(1, 0), (0, 0), (1, 1)]
    assert pairs.left_out == LeftOut(
        only_judge=1, only_reference=1, unmatched=3, superseded=1, other_runs=1
    )
    assert "sample 0 of 'a' matches nothing: it names criterion 2; the judge" in pairs.unmatched


def test_a_label_without_a_criterion_where_there_are_several_is_of_none() -> None:
    pairs = pair_verdicts({"r": [answer(says(x=YES, y=YES))]}, [Label("a", True)])
    assert (len(pairs), pairs.left_out.unmatched) == (0, 1)
    assert pairs.unmatched == (
        "For example, the label of sample 0 of 'a' matches nothing: it names no criterion; the "
        "judge has 2, and number 0 is 'x'."
    )


def test_labels_that_cannot_be_told_apart_are_refused() -> None:
    runs = {name: [answer(says(x=YES))] for name in ("r", "s")}
    with pytest.raises(ConfigError, match="does not name its run"):
        pair_verdicts(runs, [Label("a", True, criterion="x")])
    with pytest.raises(ConfigError, match="one criterion"):
        pair_verdicts(
            {"r": [answer(says(x=YES))]}, [Label("a", True, criterion=0), Label("a", True)]
        )
    of_both = [Label("a", True, criterion="x", run=name) for name in runs]
    pairs = pair_verdicts(runs, of_both)
    assert pairs.run.tolist() == [0, 1]
    assert len(set(pairs.cluster.tolist())) == 1, "one prompt, in both runs"


def test_groups() -> None:
    told = Said("ok", tuple(JudgeVerdict(n, True, groups={"c": n}) for n in "xyx"))
    pairs = pair_verdicts({"r": [answer(told, told)]}, JUDGE)
    assert pairs.labels() == ["c"]
    assert {name: found.tolist() for name, found in pairs.by("c").items()} == {
        "x": [True, False, True],
        "y": [False, True, False],
    }
