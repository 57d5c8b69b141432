import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import UserError
from harness.plugins.builders.wildifeval import report
from harness.plugins.builders.wildifeval.asking import CurationPrompts
from harness.plugins.builders.wildifeval.curation_file import (
    ConstraintsSection,
    PromptName,
    load_curation,
)
from harness.plugins.builders.wildifeval.pipeline import (
    Curated,
    CuratedRow,
    RowConstraint,
    estimate,
    not_repeated,
)
from harness.plugins.builders.wildifeval.pipeline import curated as run_stages
from harness.plugins.builders.wildifeval.screening import Chat, Screened, Step
from tests.plugins.builders.wildifeval.stage_models import Model, asking

CHATS = [Chat(f"c{n}", f"Message {n}") for n in range(12)]
PARTS = {
    "toxic": "Is the message toxic",
    "constrained": "constrained generation task",
    "decompose": "You take apart",
    "category": "Which kind of constraint",
    "propose": "these are from",
    "merge": "Make one list",
    "domain": "Which domain",
}


def answering(**said: Callable[[str], str] | str) -> Model:
    """A model that answers each kind of question as it is told to."""
    usual = {
        "toxic": "no",
        "constrained": "yes",
        "decompose": "Task: Write.\nContext: none\nConstraints:\n1. Be brief.",
        "category": "Length",
        "propose": "1. Art\n2. Sports",
        "domain": "Art",
    }

    def answer(text: str) -> str:
        kind = next(kind for kind, part in PARTS.items() if part in text)
        found = {**usual, **said}[kind]
        return found(text) if callable(found) else found

    return Model(answer)


async def curated(
    folder: Path, model: Model, *overrides: str, prompts: CurationPrompts | None = None
) -> Curated:
    curation = load_curation(None, ["model.backend=openai", "filter.keep=1", *overrides])
    screened = Screened(CHATS, Step("screen", len(CHATS)), [])
    prompts = prompts or CurationPrompts({})
    return await run_stages(curation, prompts, asking(folder, model), screened)


def number(text: str) -> int:
    return int(re.findall(r"<message>\nMessage (\d+)\n</message>", text)[-1])


async def test_rows_have_all_that_was_found(tmp_path: Path) -> None:
    found = await curated(tmp_path, answering())
    assert [row.id for row in found.rows] == [chat.id for chat in CHATS]
    row = found.rows[3]
    assert (row.task, row.asks, row.context, row.domain) == ("Message 3", "Write.", "", "Art")
    assert [(one.text, one.category, one.title) for one in row.constraints] == [
        ("Be brief.", "Length", "")
    ]
    assert found.domains == ["Art", "Sports"]


async def test_toxic_messages_are_left_out_by_a_model_where_it_is_to(tmp_path: Path) -> None:
    model = answering(toxic=lambda text: ["yes", "no", "hm"][number(text) % 3])
    found = await curated(tmp_path, model, "screen.toxicity=model")
    assert [row.id for row in found.rows] == ["c1", "c4", "c7", "c10"]
    assert found.steps[1].removed == {"toxic": 4, "undecided": 4}


async def test_undecided_messages_are_counted_and_not_taken_for_a_no(tmp_path: Path) -> None:
    model = answering(constrained=lambda text: "Hm." if number(text) < 4 else "yes")
    found = await curated(tmp_path, model)
    assert len(found.rows) == 8
    assert found.steps[1].removed == {"undecided": 4}


async def test_what_cannot_be_taken_apart_is_left_out_with_the_reason(tmp_path: Path) -> None:
    def apart(text: str) -> str:
        good = "Task: Write.\nConstraints:\n1. Be brief."
        return {0: "I cannot.", 1: "", 2: "Task: W.\nConstraints: none"}.get(number(text), good)

    found = await curated(tmp_path, answering(decompose=apart))
    assert found.steps[2].removed == {"not decomposed": 2, "no constraints": 1}
    assert {one.detail for one in found.steps[2].examples["not decomposed"]} == {
        *("empty", "The reply has no constraints in it."),
    }


async def test_labels_that_are_not_given_stay_empty(tmp_path: Path) -> None:
    model = answering(category="Something else", domain=lambda t: "Art" if "8" in t else "Cooking")
    found = await curated(tmp_path, model)
    assert {one.category for row in found.rows for one in row.constraints} == {""}
    assert [row.domain for row in found.rows] == [""] * 8 + ["Art"] + [""] * 3
    said = report(found).replace("\\", "")
    assert "(the model named none) | 12 | 1.000" in said
    assert found.unread == {"categories": {"Something else": 1}, "domains": {"Cooking": 11}}
    assert "| categories | Something else | 1 |" in said
    assert "| domains | Cooking | 11 |" in said


async def test_prompts_with_another_numbering_and_other_headings(tmp_path: Path) -> None:
    """Those of the paper number from 0, and have "Translated" before each heading."""
    kinds = ["Length", "Editing", "Ensure Quality"]
    listed = "".join(f"{n}. *{name}*: about it\n" for n, name in enumerate(kinds))
    texts = {
        "category": f"Which kind of constraint?\n{listed}\n{{{{ constraint }}}}",
        "decompose": "You take apart.\nTranslated Constraints:\n1. Be kind.\n\n{{ message }}\n"
        "Translated Task:",
        "domain": "Which domain?\n{% for name in domains %}{{ loop.index0 }}. {{ name }}\n"
        "{% endfor %}{{ message }}",
    }
    own: dict[PromptName, Path] = {}
    for name in ("category", "decompose", "domain"):
        own[name] = tmp_path / name
        own[name].write_text(texts[name])

    def apart(text: str) -> str:
        constraints = "\n".join(f"{k + 1}. Constraint {k}." for k in range(4))
        return f"Write. Translated Context:\nTranslated Constraints:\n{constraints}"

    def kind(text: str) -> str:
        return re.findall(r"Constraint (\d)", text)[0]

    model = answering(decompose=apart, category=kind, domain="1")
    found = await curated(tmp_path, model, prompts=CurationPrompts(own))
    row = found.rows[0]
    assert (row.asks, row.domain) == ("Write.", "Sports")
    assert [one.category for one in row.constraints] == [*kinds, ""]
    assert found.unread == {"categories": {"3": 1}, "domains": {}}


async def test_many_domains_are_merged_and_each_batch_is_asked(tmp_path: Path) -> None:
    def propose(text: str) -> str:
        numbers = re.findall(r"Message (\d+)", text)
        assert len(numbers) == 4
        return "\n".join(f"{i}. Area {n}" for i, n in enumerate(numbers, start=1))

    def merge(text: str) -> str:
        assert all(f"Area {n}: 1" in text for n in (0, 4, 11))
        return "1. First\n2. Second\n3. Third\n4. Fourth"

    model = answering(propose=propose, merge=merge, domain=lambda text: str(1 + number(text) % 3))
    found = await curated(tmp_path, model, "domains={batch: 4, proposed: 4, merged: 3}")
    assert len(found.proposed) == 12
    assert found.domains == ["First", "Second", "Third"]
    assert [row.domain for row in found.rows] == ["First", "Second", "Third"] * 4


@pytest.mark.parametrize(
    ("said", "match"),
    [
        (
            {"constrained": "Hm."},
            r"none of its first 12 replies can be read",
        ),
        ({"decompose": "No."}, r"the step 'decompose' \(12 not decomposed\)"),
        ({"propose": "Art and sports"}, "named no domains"),
    ],
)
async def test_where_nothing_is_left_it_says_so(
    said: dict[str, str], match: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=match):
        await curated(tmp_path, answering(**said))


async def test_what_a_model_writes_is_no_markup_of_the_report(tmp_path: Path) -> None:
    hostile = "Task: x\nConstraints:\n1. <script>alert(1)</script> | # [a](b)"
    found = await curated(tmp_path, answering(decompose=hostile, propose="1. <b>Art</b>"))
    assert "<script>" not in report(found).replace("\\<", "")
    assert "<b>" not in report(found).replace("\\<", "")


@pytest.mark.parametrize("keep", [0.3, 1])
async def test_no_stage_asks_more_than_was_estimated(keep: float, tmp_path: Path) -> None:
    model = answering()
    overrides = [f"filter.keep={keep}", "screen.toxicity=model", "domains.batch=5"]
    curation = load_curation(None, ["model.backend=openai", *overrides])
    estimated = estimate(curation, CHATS, CurationPrompts({}), lambda _: False)
    build = asking(tmp_path, model)
    screened = Screened(CHATS, Step("screen", len(CHATS)), [])
    await run_stages(curation, CurationPrompts({}), build, screened)
    calls = build.facts()["calls"]
    assert [one.stage for one in estimated] == list(calls)
    for one in estimated:
        assert 0 < calls[one.stage]["answers"] <= one.calls
        assert one.usage.input_tokens > 0 < one.usage.output_tokens
    assert len(model.requests) <= sum(one.calls for one in estimated)


def tasks(*constraints: tuple[str, ...]) -> list[CuratedRow]:
    return [
        CuratedRow(f"t{n}", "Write.", tuple(map(RowConstraint, own)))
        for n, own in enumerate(constraints)
    ]


def left(
    found: list[CuratedRow], most_tasks: int = 40, most: int = 8, seed: int = 0
) -> tuple[list[CuratedRow], Step]:
    by = ConstraintsSection(most_tasks=most_tasks, most_of_a_task=most)
    return not_repeated(found, by, seed)


def test_tasks_of_too_many_constraints_go() -> None:
    kept, step = left(tasks(tuple("abcdefgh"), tuple("abcdefghi")))
    assert [task.id for task in kept] == ["t0"]
    assert step.removed == {"too many constraints": 1}


def test_a_constraint_that_many_have_is_left_to_as_many_as_are_allowed() -> None:
    found = tasks(*[("Be brief.", f"{n}") for n in range(60)], *[(f"own {n}",) for n in range(5)])
    kept, step = left(found)
    assert sum(RowConstraint("Be brief.") in task.constraints for task in kept) == 40
    assert len(kept) == 45
    assert step.removed == {"repeated constraint": 20}
    assert step.examples["repeated constraint"][0].detail == "be brief (60 tasks)"
    assert kept == [task for task in found if task in kept]  # in their order


def test_how_it_is_written_makes_no_difference() -> None:
    kept, _ = left(tasks(("Be brief.",), ("be  brief",), ("BE BRIEF!",)), most_tasks=2)
    assert len(kept) == 2


def test_the_seed_draws() -> None:
    found = tasks(*[("Be brief.",)] * 60)
    drawn = {tuple(task.id for task in left(found, seed=seed)[0]) for seed in range(4)}
    assert len(drawn) == 4
    assert left(found, seed=2) == left(found, seed=2)


@given(
    st.lists(st.sets(st.sampled_from("abcdef"), min_size=1).map(tuple), max_size=40),
    st.integers(1, 5),
)
def test_none_is_left_too_often_and_none_goes_without_need(
    constraints: list[tuple[str, ...]], most: int
) -> None:
    found = tasks(*constraints)
    kept, step = left(found, most_tasks=most)
    counts = Counter(one for task in kept for one in task.constraints)
    assert all(n <= most for n in counts.values())
    assert step.left == len(kept)
    for task in found:
        if task not in kept:
            assert any(counts[one] == most for one in task.constraints)
