"""Verdicts on claims, and what single fields add."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from harness.analysis.ablation import AblationFindings, AblationOptions, ablate, findings
from harness.analysis.comparable import Variant
from harness.ports import Claim
from tests.analysis.variants import group, variant

MORE = Claim("more helps", "us", "more", more="_P_D", less="_P")
ROWS = Claim("fields differ", "us", "rows_differ")
GROUPS = Claim("tasks differ", "us", "groups_differ")


class Toys:
    """Fields are letters; a small one is another form of the large."""

    def __init__(self, *claims: Claim) -> None:
        self.claims = claims

    def fields(self, encoding: str) -> Mapping[str, str]:
        return {field.upper(): field for field in encoding.split("_")[1:]}


def found(variants: Sequence[Variant], *claims: Claim) -> AblationFindings:
    return findings(variants, ablate(variants, AblationOptions()), Toys(*claims))


def run(name: str, encoding: str, *values: float, **changes: Any) -> Variant:
    return variant(name, dict(zip("abcde", values, strict=False)), encoding, **changes)


BASE = run("base", "_P", 0.2, 0.2, 0.2)


@pytest.mark.parametrize(
    ("values", "verdict", "evidence"),
    [
        ((0.5, 0.52, 0.48), "holds", "more over base: +30.00 (25.03 to 34.97), more on 3 of 3"),
        ((0.1, 0.3, 0.5), "undecided", "(-39.68 to 59.68), more on 2 of 3 tasks"),
        ((0.1, 0.15, 0.2), "does not hold", "-5.00"),
        ((0.1, 0.2, 0.3), "does not hold", "+0.00"),
        ((0.5,), "undecided", "+30.00 (no interval), more on 1 of 1"),
    ],
)
def test_more(values: tuple[float, ...], verdict: str, evidence: str) -> None:
    (told,) = found([BASE, run("more", "_P_D", *values)], MORE).claims
    assert told.verdict == verdict
    assert evidence in told.evidence
    assert (told.says, told.source) == ("more helps", "us")


@pytest.mark.parametrize("changes", [{"simulated": True}, {"complete": False}])
def test_a_run_that_is_made_up_or_incomplete_speaks_for_nothing(changes: dict[str, bool]) -> None:
    told = found([BASE, run("more", "_P_D", 0.5, 0.6, 0.7, **changes)], MORE, ROWS, GROUPS)
    assert {claim.verdict for claim in told.claims} == {"not tested"}
    assert told.claims[0].evidence == "no usable run of _P_D"
    assert told.fields == []
    assert told.silent == ["more"]


def test_another_models_run_speaks_for_nothing() -> None:
    """Else what one model is better at would be what the field adds."""
    strong = run("more", "_P_D", 0.5, 0.6, 0.7, settings={"model.name": "strong"})
    told = found([BASE, strong], MORE)
    assert told.claims[0].verdict == "not tested"
    assert told.fields == []
    assert told.silent == ["more"]


def test_runs_of_several_encodings_speak_for_none() -> None:
    both = run("both", "_P_D", 0.5, 0.6, 0.7)
    both.metrics.groups["encoding"]["_P_E"] = group(0.5)
    assert found([BASE, both], MORE).claims[0].verdict == "not tested"


def test_the_run_with_most_tasks_then_most_examples_speaks() -> None:
    few, many, part = (run(name, "_P_D", *values) for name, values in (
        ("few", (0.3, 0.3, 0.4)), ("many", (0.5, 0.5, 0.6)), ("part", (0.9, 0.9))
    ))  # fmt: skip
    for one, shown in ((few, "2"), (many, "10"), (part, "50")):
        one.metrics.groups["examples"] = {shown: group(0.5)}
    for order in ([BASE, few, many, part], [BASE, part, many, few]):
        assert found(order, MORE).claims[0].evidence.startswith("many over base")


def test_fields_that_are_added_alone() -> None:
    told = found(
        [
            BASE,
            run("d", "_D_P", 0.3, 0.3, 0.4),
            run("de", "_P_D_E", 0.4, 0.4, 0.3),
            run("x", "_p_X", 0.1, 0.1, 0.2),
            run("yz", "_P_Y_Z", 0.5, 0.5, 0.6),
        ]
    ).fields
    assert [(gain.field, gain.less, gain.more) for gain in told] == [
        ("D", "base", "d"),
        ("X", "base", "x"),
        ("E", "d", "de"),
    ]
    assert [gain.difference for gain in told] == pytest.approx([0.4 / 3, -0.2 / 3, 0.1 / 3])
    assert [gain.n_better for gain in told] == [3, 0, 2]
    assert [gain.other_forms for gain in told] == [{}, {"P": ("P", "p")}, {}]


def test_the_direction_does_not_depend_on_the_order_of_the_runs() -> None:
    (gain,) = found([run("d", "_P_D", 0.3, 0.3, 0.4), BASE]).fields
    assert (gain.less, gain.more, gain.n_better) == ("base", "d", 3)


def test_rows_differ() -> None:
    d, e, f = (
        run("d", "_P_D", 0.5, 0.51, 0.49),
        run("e", "_P_E", 0.2, 0.21, 0.19),
        run("f", "_P_F", 0.1, 0.12, 0.1),
    )
    (told,) = found([BASE, d, e, f], ROWS).claims
    assert told.verdict == "holds"
    assert "of 3 fields added to base" in told.evidence
    assert "F -9.33 (f), D +30.00 (d); apart by +39.33" in told.evidence
    assert "covers all 3 pairs" in told.evidence
    # the same two fields are less far apart where many others might have been the extremes
    noisy = [run("d", "_P_D", 0.5, 0.6, 0.7), run("e", "_P_E", 0.4, 0.41, 0.42)]
    assert found([BASE, *noisy], ROWS).claims[0].verdict == "undecided"
    assert found([BASE, d], ROWS).claims[0].verdict == "not tested"


def test_groups_differ() -> None:
    mixed = run("mixed", "_P_D", 0.4, 0.1, 0.2)
    (told,) = found([BASE, mixed, run("all", "_P_E", 0.3, 0.31, 0.3)], GROUPS).claims
    assert told.verdict == "holds"
    assert told.evidence.startswith("1 of 2 other encodings (of each, the run with the most")
    assert "gain on some tasks and lose on others" in told.evidence
    assert "of 1 the gains differ by more than their errors" in told.evidence


def test_rounding_is_no_error_that_a_gain_could_exceed() -> None:
    base, even = (
        run(name, encoding, *values, stderr=1.6e-17)
        for name, encoding, values in (
            ("base", "_P", (0.2, 0.2, 0.2)),
            ("even", "_P_D", (0.3, 0.3, 0.4)),
        )
    )
    told = found([base, even], GROUPS).claims[0]
    assert "of 0 the gains differ" in told.evidence


def test_groups_that_differ_within_their_errors() -> None:
    base = run("base", "_P", 0.2, 0.2, 0.2, stderr=0.1)
    mixed = run("mixed", "_P_D", 0.25, 0.15, 0.2, stderr=0.1)
    same = run("same", "_P_D", 0.3, 0.3, 0.3, stderr=0.1)
    assert found([base, mixed], GROUPS).claims[0].verdict == "undecided"
    assert found([base, same], GROUPS).claims[0].verdict == "does not hold"
    assert found([base, run("one", "_P_D", 0.3)], GROUPS).claims[0].verdict == "not tested"


def test_an_error_of_zero_is_not_weighed() -> None:
    base = run("base", "_P", 0.2, 0.2, 0.2, stderr=0.0)
    mixed = run("mixed", "_P_D", 0.25, 0.15, 0.2, stderr=0.0)
    assert found([base, mixed], GROUPS).claims[0].verdict == "undecided"


def test_a_task_without_claims() -> None:
    variants = [BASE, run("d", "_P_D", 0.3, 0.3, 0.4)]
    told = findings(variants, ablate(variants, AblationOptions()), None)
    assert (told.fields, told.claims) == ([], [])
    assert math.isclose(told.table.rows[1].difference or 0.0, 0.4 / 3)
