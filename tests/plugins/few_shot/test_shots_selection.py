from collections import Counter
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.config.sections import ShotsSection
from harness.errors import ConfigError
from harness.plugins.few_shot.shots import Shots
from harness.records import Instance
from tests.plugins.few_shot.shown import Fact, Facts, chosen, fact, selection

LETTERS = Facts(*(fact(name) for name in "abcdef"))
GROUPED = Facts(
    fact("a", kind="x", source="1"),
    fact("b", kind="y", source="1"),
    fact("c", kind="x", source="2"),
    fact("d", kind="x", source="1"),
    fact("e", kind="y", source="1"),
)


def test_the_first_shots_are_in_the_order_of_the_data() -> None:
    assert chosen(selection(LETTERS, n=3)) == ["b", "c", "d"]
    assert chosen(selection(LETTERS, n=3), 1) == ["a", "c", "d"]


def test_named_shots_keep_their_order() -> None:
    named = selection(LETTERS, n=2, select="ids", ids=["e", "a", "c"])
    assert chosen(named, 1) == ["e", "a"]
    assert chosen(named, 4) == ["a", "c"]


def test_the_order_may_be_reversed() -> None:
    assert chosen(selection(LETTERS, n=3, order="reversed")) == ["d", "c", "b"]


def test_a_random_order_keeps_the_shots_and_differs_by_instance() -> None:
    many = Facts(*(fact(f"{number:02}") for number in range(40)))
    shuffled = selection(many, n=3, order="random")
    orders = [tuple(chosen(shuffled, number)) for number in range(3, 40)]
    assert set(orders) == set(permutations(["00", "01", "02"]))
    again = selection(many, n=3, order="random")
    assert orders == [tuple(chosen(again, number)) for number in range(3, 40)]


def test_random_shots_depend_only_on_seed_and_instance() -> None:
    many = Facts(*(fact(f"{number}") for number in range(30)))

    def drawn(**keys: Any) -> list[tuple[str, ...]]:
        found = selection(many, n=3, select="random", **keys)
        return [tuple(chosen(found, number)) for number in range(30)]

    assert drawn() == drawn()
    assert drawn() != drawn(seed=1)
    assert len(set(drawn())) > 20
    assert all(len(set(shots)) == 3 for shots in drawn())


def test_random_shots_are_drawn_evenly() -> None:
    many = Facts(*(fact(f"{number}") for number in range(2000)))
    found = selection(many, pool=LETTERS, n=2, select="random")
    drawn = Counter(tuple(chosen_) for chosen_ in (chosen_ids(found, one) for one in many.all))
    assert len(drawn) == 30
    assert min(drawn.values()) > 30  # of 67 expected: 4.5 standard deviations below


def chosen_ids(found: Shots, instance: Instance[Fact]) -> list[str]:
    return [shot.id for shot in found.of(instance)]


def test_shots_share_the_labels_that_the_run_file_names() -> None:
    assert chosen(selection(GROUPED, n=2, within=["kind"])) == ["c", "d"]
    assert chosen(selection(GROUPED, n=1, within=["kind", "source"])) == ["d"]
    assert chosen(selection(GROUPED, n=1, within=["source"]), 4) == ["a"]


def test_shots_are_taken_round_robin_from_the_groups_of_a_label() -> None:
    assert chosen(selection(GROUPED, n=2, across="kind")) == ["c", "b"]
    assert chosen(selection(GROUPED, n=4, across="kind")) == ["c", "b", "d", "e"]
    assert chosen(selection(GROUPED, n=1, across="kind"), 1) == ["a"]
    assert chosen(selection(GROUPED, n=2, across="kind", order="reversed")) == ["b", "c"]
    within = selection(GROUPED, n=2, across="kind", within=["source"])
    assert chosen(within) == ["d", "b"]
    # The other source has only one kind.
    alone = selection(GROUPED, n=2, across="kind", within=["source"], allow_fewer=True)
    assert chosen(alone, 2) == []


def test_the_groups_need_not_be_those_of_the_instance() -> None:
    bare = Facts(fact("z", sort="x"))
    assert chosen(selection(bare, pool=GROUPED, n=2, across="kind")) == ["a", "b"]
    partly = Facts(*GROUPED.all, fact("f"), fact("0"))
    assert chosen(selection(partly, n=4, across="kind", allow_fewer=True), 5) == list("abce")


def test_a_random_shot_of_each_group() -> None:
    many = Facts(*(fact(f"{n}", kind="xyz"[n % 3], twin=f"{n // 3}") for n in range(90)))
    found = selection(many, n=3, across="kind", select="random")
    shown = [found.of(instance) for instance in many.all]
    assert {tuple(shot.groups["kind"] for shot in shots) for shots in shown} == {("x", "y", "z")}
    assert len({tuple(shot.id for shot in shots) for shots in shown}) > 80
    # Each group has its own random order.
    assert sum(len({shot.groups["twin"] for shot in shots}) == 3 for shots in shown) > 60


def test_no_other_group_takes_the_turn_of_an_exhausted_group() -> None:
    keys = {"n": 4, "across": "kind", "within": ["source"]}
    with pytest.raises(ConfigError, match=r"3 of 4 .* 'a' \(instances with too few: 5\)"):
        selection(GROUPED, **keys).check(GROUPED.instances())
    fewer = selection(GROUPED, **keys, allow_fewer=True)
    fewer.check(GROUPED.instances())
    assert [chosen(fewer, number) for number in (0, 1, 2)] == [list("dbe"), list("aed"), []]


def test_the_label_across_is_part_of_the_fingerprint() -> None:
    without = selection(GROUPED, n=2).fingerprint()
    assert selection(GROUPED, n=2, across="kind").fingerprint() != without
    others = Facts(*GROUPED.all[:-1], fact("e", kind="x", source="1"))
    assert selection(others, n=2).fingerprint() == without
    found = {selection(task, n=2, across="kind").fingerprint() for task in (GROUPED, others)}
    assert len(found) == 2


def test_the_fingerprint_of_runs_without_across_is_unchanged() -> None:
    assert selection(GROUPED, within=["kind"]).fingerprint().startswith("c4733abc4d249ff2")


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"within": ["knd"]}, "within: .*no label 'knd'. Did you mean 'kind'?"),
        ({"across": "knd"}, "across: .*no label 'knd'. Did you mean 'kind'?"),
        ({"select": "ids", "ids": ["z"]}, "no instance 'z'.*Valid names: a, b, c, d, e"),
    ],
)
def test_the_error_for_an_unknown_name_suggests_the_nearest(
    keys: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem):
        selection(GROUPED, **keys)


def test_an_instance_without_the_label_is_refused() -> None:
    bare = Facts(fact("z", sort="x"))
    with pytest.raises(ConfigError, match="no label 'kind'"):
        selection(bare, pool=GROUPED, within=["kind"]).check(bare.instances())
    with pytest.raises(ConfigError, match="no labels at all"):
        selection(LETTERS, within=["kind"])


@pytest.mark.parametrize(
    "unfit",
    [
        fact("b", asked="a?"),
        fact("b", gold="a!"),
        fact("b", gold=None),
        fact("b", gold=""),
        fact("b", right=False),
    ],
    ids=["the same prompt", "gives it away", "no gold", "an empty gold", "a gold that fails"],
)
def test_an_unsuitable_shot_is_skipped(unfit: Instance[Fact]) -> None:
    task = Facts(fact("a"), unfit, fact("c"))
    assert chosen(selection(task)) == ["c"]
    with pytest.raises(ConfigError, match=r"only 0 of 1 shots are suitable for the instance 'a'"):
        selection(Facts(fact("a"), unfit)).check(iter([fact("a")]))


def test_the_instance_itself_is_not_a_shot_from_another_source() -> None:
    source = Facts(fact("a", asked="in other words?", gold="other"), fact("b"))
    assert chosen(selection(LETTERS, pool=source)) == ["b"]


def test_shots_of_a_task_without_reference_answers_are_refused() -> None:
    task = Facts(fact("a", gold=None), fact("b", gold=None))
    with pytest.raises(ConfigError, match="no instance has a reference answer"):
        selection(task).check(task.instances())


def test_too_few_shots_are_refused_with_the_instance_and_a_remedy() -> None:
    with pytest.raises(ConfigError) as refused:
        selection(GROUPED, n=2, within=["kind"]).check(GROUPED.instances())
    assert refused.value.message == (
        "task.shots: only 1 of 2 shots are suitable for the instance 'b' (instances "
        "with too few: 2). The others leak its answer or fail."
    )
    assert refused.value.remedy == (
        "Ask for fewer shots, select them from more instances, or set allow_fewer: true."
    )


def test_fewer_shots_are_used_if_the_run_file_allows_it() -> None:
    found = selection(GROUPED, n=2, within=["kind"], allow_fewer=True)
    found.check(GROUPED.instances())
    assert found.lacking == 2
    assert [len(chosen(found, number)) for number in range(5)] == [2, 1, 2, 2, 1]


def test_enough_shots_for_all_raise_no_error() -> None:
    found = selection(LETTERS, n=5)
    found.check(LETTERS.instances())
    assert found.lacking == 0


@pytest.mark.parametrize(
    "other",
    [
        Facts(*GROUPED.all[:-1]),
        Facts(*GROUPED.all[::-1]),
        Facts(*GROUPED.all[:-1], fact("e", gold="f!", kind="y", source="1")),
        Facts(*GROUPED.all[:-1], fact("e", asked="E?", kind="y", source="1")),
        Facts(*GROUPED.all[:-1], fact("e", kind="x", source="1")),
        Facts(*GROUPED.all, system="Be brief."),
    ],
    ids=["fewer", "another order", "another gold", "another prompt", "another group", "a system"],
)
def test_the_fingerprint_covers_all_that_the_choice_depends_on(other: Facts) -> None:
    before = selection(GROUPED, within=["kind"]).fingerprint()
    assert selection(GROUPED, within=["kind"]).fingerprint() == before
    assert selection(other, within=["kind"]).fingerprint() != before


few = st.sampled_from(["0", "1", "2", "3"])
facts = st.builds(
    lambda asked, gold, right, kind: (asked, gold, right, kind),
    few, st.none() | few, st.booleans(), st.sampled_from(["x", "y"]),
)  # fmt: skip
sections = st.builds(
    lambda n, select, order, within, seed: ShotsSection(
        n=n, select=select, order=order, within=within, seed=seed, allow_fewer=True
    ),
    st.integers(1, 4),
    st.sampled_from(["first", "random"]),
    st.sampled_from(["selected", "reversed", "random"]),
    st.sampled_from([(), ("kind",)]),
    st.integers(0, 3),
)


def made(rows: list[tuple[str, str | None, bool, str]]) -> Facts:
    return Facts(
        *(
            fact(f"{number}", asked, gold, right=right, kind=kind)
            for number, (asked, gold, right, kind) in enumerate(rows)
        )
    )


@given(st.lists(facts, min_size=1, max_size=12), st.lists(facts, max_size=12), sections)
def test_no_shot_leaks_and_every_suitable_one_can_be_chosen(
    rows: list[tuple[str, str | None, bool, str]],
    others: list[tuple[str, str | None, bool, str]],
    section: ShotsSection,
) -> None:
    task = made(rows)
    for pool in (task, made(others)):
        found = Shots(task, section, pool)
        for instance in task.all:
            fit = {
                shot.id
                for shot in pool.all
                if shot.id != instance.id
                and shot.data.asked != instance.data.asked
                and shot.data.gold is not None
                and shot.data.gold != instance.data.gold
                and shot.data.right
                and (not section.within or shot.groups == instance.groups)
            }
            shots = chosen_ids(found, instance)
            assert set(shots) <= fit
            assert len(shots) == len(set(shots)) == min(section.n, len(fit))
