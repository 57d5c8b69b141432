"""An ablation as a terminal and as other programs see it."""

import csv
import io
import json

import pytest
from msgspec.structs import replace
from rich.cells import cell_len

from harness.plugins.comparisons.ablation import (
    Ablation,
    AblationFindings,
    AblationRow,
    ClaimVerdict,
    FieldGain,
    Gain,
)
from harness.plugins.comparisons.documents import ablation_document
from harness.report.table import FORMATS
from harness.report.text import format_p_value, wrap_name
from tests.report.test_run_tables import HOSTILE, WIDTHS, rendered, row

LONG = "definition_prompt_avoid_emphasis_negative_positive_max"


def findings(
    name: str = LONG, group: str = "question generation", over: str = "task"
) -> AblationFindings:
    by = {
        group: Gain(n=1, of=2, mean=0.5, percent=12.345),
        "z": Gain(n=0, of=3, mean=None, percent=None),
    }
    whole = Gain(n=7, of=7, mean=0.3, percent=23.145)
    rows = [
        AblationRow(
            variant="base", is_baseline=True, marks=[], n_groups=7, mean=0.2565, same_groups=True,
            gain=replace(whole, percent=0.0), by=by,
        ),
        AblationRow(
            variant=name, is_baseline=False, marks=["INCOMPLETE 210 of 700"], n_groups=7,
            mean=0.3158, same_groups=True, gain=whole, difference=0.0594, ci95=(-0.0922, 0.2109),
            p_value=0.0123, p_holm=0.0369, n_better=5, by=by,
        ),
        AblationRow(
            variant="part", is_baseline=False, marks=[], n_groups=1, mean=0.5, same_groups=False,
            gain=Gain(n=1, of=7, mean=0.5, percent=-3.0), difference=-0.01, by=by,
        ),
        AblationRow(
            variant="none", is_baseline=False, marks=[], n_groups=0, mean=None, same_groups=False,
            gain=Gain(n=0, of=7, mean=None, percent=None), by=by,
        ),
    ]  # fmt: skip
    table = Ablation(
        task="toys", model=over, baseline="base", over=over, score="rouge_l", by="category",
        n_groups=7, rows=rows,
        notes=["The runs differ in decoding.temperature."],
    )  # fmt: skip
    return AblationFindings(
        table=table,
        fields=[
            FieldGain(
                field=group, less="base", more=name, n=7, n_better=5, difference=0.0594,
                ci95=(-0.0922, 0.2109), other_forms={"Positive": ("short", name)},
            )
        ],
        claims=[ClaimVerdict(says="it helps", source="us", verdict="undecided", evidence=name)],
        silent=[name],
    )  # fmt: skip


def shown(found: AblationFindings, width: int) -> list[str]:
    return rendered(ablation_document(found), width)


def written(form: str, found: AblationFindings) -> str:
    return FORMATS[form](ablation_document(found))


def test_a_row_and_its_notes() -> None:
    lines = shown(findings("more"), width=140)
    assert lines[0] == "toys  task"
    first, second = (line for line in lines if line.startswith("variant"))
    heads = ["variant", "task", "mean", "gain", "%", "difference", "95%", "p", "p", "(Holm)"]
    assert first.split() == heads
    assert second.split() == ["variant", *["mean", "gain", "%"] * 2]
    where = lines.index(second)
    means, lines = lines[where : where + 7], [*lines[:where], *lines[where + 7 :]]
    assert row(means, "more ") == "more 50.00* +12.3 n/a n/a"
    assert row(lines, "base ").startswith("base 7 of 7 25.65 baseline")
    assert row(lines, "more ").endswith("7 of 7 31.58 +23.1 +5.94 -9.22 to 21.09 0.012 0.037")
    assert row(lines, "INCOMPLETE") == "INCOMPLETE 210 of 700"
    assert row(lines, "part") == "part 1 of 7 50.00* -3.0 -1.00 n/a n/a n/a"
    assert row(lines, "none") == "none 0 of 7 n/a n/a none shared"
    text = " ".join(" ".join(lines).split())
    assert "rouge_l x 100: mean over 7 groups of 'task' with" in text
    assert "p (Holm): adjusted by Holm's method for testing 1 variant." in text
    assert "* Covers different groups from the baseline" in text
    assert "The runs differ in decoding.temperature." in text
    assert "question generation† base more +5.94 -9.22 to 21.09 5 of 7" in text
    assert "† 'short' also becomes 'more' there" in text
    assert row(lines, "undecided") == "undecided “it helps” us: more"
    assert "in more than the prompt: more." in text


def test_nothing_is_said_of_means_that_are_all_comparable() -> None:
    found = findings()
    same = replace(found, table=replace(found.table, rows=found.table.rows[:2]))
    assert not any(line.startswith("*") for line in shown(same, width=140))


@pytest.mark.parametrize(
    ("width", "left_out"),
    [
        (200, None),
        (100, None),
        (80, "Hidden: the terminal is too narrow for task (--format markdown)."),
        (60, "Hidden: the terminal is too narrow for task, 95%, p (--format markdown)."),
    ],
)
def test_narrow_terminals_say_what_they_leave_out(width: int, left_out: str | None) -> None:
    lines = shown(findings(), width)
    assert all(cell_len(line) <= width for line in lines)
    text = " ".join(" ".join(lines).split())
    assert left_out in text if left_out else "Hidden" not in text
    # No figure is ever cut, and the name is there in full, in several lines.
    assert "…" not in "".join(lines)
    assert "31.58" in "".join(lines)
    assert "+5.94" in "".join(lines)
    top = next(number for number, line in enumerate(lines) if line.startswith("definition"))
    name = "".join(line.split()[0] for line in lines[top : top + 4])
    assert name.startswith(LONG)


@pytest.mark.parametrize("width", [*WIDTHS, 30])
def test_hostile_names_do_nothing(width: int) -> None:
    lines = shown(findings(HOSTILE, HOSTILE, HOSTILE), width)
    assert all(line.isprintable() for line in lines)
    assert all(cell_len(line) <= width for line in lines)
    assert any("[bold" in line for line in lines)
    for form in ("csv", "json", "markdown"):
        told = written(form, findings(HOSTILE, HOSTILE, HOSTILE))
        assert all(line.isprintable() for line in told.split("\n")), form
    table = written("markdown", findings("a|b<script>`", "[x](y)"))
    assert r"a\|b\<script\>\`" in table
    assert r"\[x\](y) (2" in table


def test_csv() -> None:
    rows = list(csv.DictReader(io.StringIO(written("csv", findings()))))
    assert [found["variant"] for found in rows] == ["base", LONG, "part", "none"]
    assert rows[0]["gain_percent"] == rows[0]["difference"] == ""
    assert float(rows[1]["difference"]) == 0.0594
    assert (rows[1]["ci95_low"], rows[1]["p_holm"]) == ("-0.0922", "0.0369")
    assert rows[1]["marks"] == "INCOMPLETE 210 of 700"
    assert rows[1]["gain_percent question generation"] == "12.345"
    assert (rows[1]["mean question generation"], rows[1]["mean z"]) == ("0.5", "")
    assert (rows[3]["mean"], rows[3]["gain_percent"], rows[3]["common_groups"]) == ("", "", "0")


def test_json_holds_everything() -> None:
    found = json.loads(written("json", findings()))
    assert found["table"]["rows"][1]["ci95"] == [-0.0922, 0.2109]
    assert found["table"]["rows"][3]["mean"] is None
    assert found["claims"][0]["verdict"] == "undecided"
    assert found["fields"][0]["other_forms"] == {"Positive": ["short", LONG]}


def test_markdown_is_a_table() -> None:
    lines = written("markdown", findings("more")).split("\n")
    assert lines[0] == "**toys  task**"
    assert lines[2] == "| variant | task | mean | gain % | difference | 95% | p | p (Holm) |"
    assert lines[3] == "|" + "---|" * 8
    groups = (
        "| variant | question generation (2 groups) mean | question generation (2 groups) gain % "
    )
    assert groups + "| z (3 groups) mean | z (3 groups) gain % |" in lines
    assert lines[5].startswith("| more (INCOMPLETE 210 of 700) | 7 of 7 | 31.58 | +23.1 |")
    assert "| undecided | “it helps” us: more |" in lines


@pytest.mark.parametrize(("p", "told"), [(0.0, "<0.001"), (0.0361, "0.036"), (None, "n/a")])
def test_a_p_value_is_never_nothing(p: float | None, told: str) -> None:
    assert format_p_value(p) == told


@pytest.mark.parametrize("width", [1, 5, 12, 100])
def test_folding_loses_nothing(width: int) -> None:
    lines = wrap_name(LONG, width).plain.split("\n")
    assert "".join(lines) == LONG
    assert len(lines) == 1 or all(line.endswith("_") for line in lines[:-1])
