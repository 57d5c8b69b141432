"""A judge beside the rules in a terminal: agreement by kind of rule, and where they disagree.

>>> Console(width=100).print(rule_agreement_table(found))  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from harness.analysis.judge_agreement import JudgeAndRules, RuleAgreement
from harness.report.cells import UNKNOWN, empty_table, inert

ALL = "all"
COLUMNS = ("n", "agree", "95%", "kappa", "only judge", "only rule", "abstained")
FOOTNOTE = (
    "Of each sample's last round. n: constraints on which both have decided. only judge, only "
    "rule: met by that one's verdict alone. abstained: further ones, the judge said neither yes "
    "nor no."
)


def rule_agreement_table(found: Sequence[JudgeAndRules]) -> RenderableType:
    """For each judge a row for each kind of rule, and the instances to look at."""
    parts: list[RenderableType] = []
    for one in found:
        parts.append(Text.assemble("The judge ", inert(one.judge), " and the rules"))
        if one.kinds:
            parts += _of_both(one)
        if one.n_skipped:
            told = f"Decided by a rule, the judge not asked: {one.n_skipped:,} constraints."
            parts.append(Text(told))
        parts.append(Text(f"Without a rule: {one.n_without_rule:,} constraints.", style="dim"))
    return Group(*parts)


def _of_both(found: JudgeAndRules) -> list[RenderableType]:
    table = empty_table()
    table.add_column("rule", overflow="fold")
    for heading in COLUMNS:
        table.add_column(heading, justify="right", no_wrap=True)
    for kind in found.kinds:
        table.add_row(*_row(kind))
    if len(found.kinds) > 1:
        table.add_row(*_row(found.overall))
    examples = [line for kind in found.kinds for line in _examples(kind)]
    return [table, *examples, Text(FOOTNOTE, style="dim")]


def _row(kind: RuleAgreement) -> list[Text | str]:
    found = kind.agreement
    told, share, kappa = found.confusion, found.accuracy, found.kappa.mean
    low_high = UNKNOWN if share.ci95 is None else "{:.3f}-{:.3f}".format(*share.ci95)
    name = inert(kind.rule or ALL)
    name.no_wrap, name.overflow = False, "fold"
    return [
        name,
        f"{share.n:,}",
        UNKNOWN if share.mean is None else f"{share.mean:.1%}",
        low_high,
        UNKNOWN if kappa is None else f"{kappa:.2f}",
        f"{told.yes_no:,}",
        f"{told.no_yes:,}",
        f"{told.abstained_yes + told.abstained_no:,}",
    ]


def _examples(kind: RuleAgreement) -> list[Text]:
    found: list[Text] = []
    for said, instances in (("only judge", kind.judge_only), ("only rule", kind.rule_only)):
        if instances:
            line = Text.assemble(inert(kind.rule), f", {said}: ")
            for place, name in enumerate(instances):
                line.append(", " if place else "").append_text(inert(name))
            found.append(line)
    return found
