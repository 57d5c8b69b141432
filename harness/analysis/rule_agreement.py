"""How often a judge and a rule say the same of a constraint that both have decided on.

A judge that has a rule's verdict beside its own tells of it in ``details.constraints``: ``passed``
and ``rule``, and the group ``rule`` for the kind of rule; without ``rule``, that group means that
the judge was not asked and the rule has decided (`yes_no` does both). Neither is taken for the
truth: a rule counts exactly, but may count what was not meant (a title as a line); a judge reads
what was meant, but counts badly.

>>> rule_agreement(Path("runs/none/attempts.jsonl"))
[]
"""

from __future__ import annotations

from heapq import nsmallest
from pathlib import Path

import numpy as np
from msgspec import Struct

from harness.analysis.judge_agreement import Agreement, agreement
from harness.store.columns import NOT_JUDGED
from harness.store.constraints import Verdict, judges_with_verdicts, read_answers
from harness.store.index import AttemptIndex

LABEL = "rule"
"""The group that names a constraint's kind of rule."""

EXAMPLES = 3


class RuleAgreement(Struct, frozen=True, kw_only=True):
    """The constraints of a kind that have both verdicts.

    rule: the kind; empty for all of them.
    agreement: of the judge with the rule.
    judge_only, rule_only: ids of the first instances, by name, with a constraint that only the
        judge, and only the rule, finds met.
    """

    rule: str
    agreement: Agreement
    judge_only: list[str]
    rule_only: list[str]


class JudgeAndRules(Struct, frozen=True, kw_only=True):
    """A judge of a run beside the rules, over each sample's last round.

    overall: all kinds together; kinds: the largest first.
    n_skipped: constraints that only a rule decided, since the judge was not asked.
    n_without_rule: constraints that no rule decides.
    """

    judge: str
    overall: RuleAgreement
    kinds: list[RuleAgreement]
    n_skipped: int
    n_without_rule: int


def rule_agreement(path: Path) -> list[JudgeAndRules]:
    """The judges of a run that tell of rules, in the order of its register.

    path: of the run's attempts.

    Raises: DataInvalid, StoreFailed.
    """
    judges = {name: _Judge() for name in judges_with_verdicts(path)}
    if not judges:
        return []
    clusters: dict[str, int] = {}
    for answer in read_answers(AttemptIndex(path), list(judges)):
        cluster = clusters.setdefault(answer.cluster, len(clusters))
        for judge, said in zip(judges.values(), answer.said, strict=True):
            for verdict in said.verdicts if said else ():
                judge.add(answer.instance, cluster, verdict)
    return [judge.told(name) for name, judge in judges.items() if judge.tells_of_rules]


class _Kind:
    """The constraints of one kind of rule."""

    def __init__(self) -> None:
        self.judge, self.rule, self.cluster = list[int](), list[int](), list[int]()
        self.judge_only, self.rule_only = set[str](), set[str]()

    def add(self, instance: str, cluster: int, judge: bool | None, rule: bool) -> None:
        self.judge.append(NOT_JUDGED if judge is None else int(judge))
        self.rule.append(int(rule))
        self.cluster.append(cluster)
        if judge is not None and judge != rule:
            (self.judge_only if judge else self.rule_only).add(instance)

    def told(self, rule: str) -> RuleAgreement:
        return RuleAgreement(
            rule=rule,
            agreement=agreement(
                np.array(self.judge, np.int8),
                np.array(self.rule, np.int8),
                np.array(self.cluster, np.int64),
            ),
            judge_only=nsmallest(EXAMPLES, self.judge_only),
            rule_only=nsmallest(EXAMPLES, self.rule_only),
        )


class _Judge:
    """The constraints that one judge has told of."""

    def __init__(self) -> None:
        self._overall = _Kind()
        self._kinds: dict[str, _Kind] = {}
        self._n_skipped = self._n_without_rule = 0

    def add(self, instance: str, cluster: int, verdict: Verdict) -> None:
        name = verdict.groups.get(LABEL)
        if verdict.rule is None:
            self._n_skipped += name is not None
            self._n_without_rule += name is None
            return
        for kind in (self._kinds.setdefault(name or "", _Kind()), self._overall):
            kind.add(instance, cluster, verdict.passed, verdict.rule)

    @property
    def tells_of_rules(self) -> bool:
        """Whether a rule has said anything beside or instead of it."""
        return bool(self._kinds or self._n_skipped)

    def told(self, name: str) -> JudgeAndRules:
        """What there is of a judge of this name."""
        kinds = sorted(self._kinds.items(), key=lambda item: (-len(item[1].rule), item[0]))
        return JudgeAndRules(
            judge=name,
            overall=self._overall.told(""),
            kinds=[kind.told(rule) for rule, kind in kinds],
            n_skipped=self._n_skipped,
            n_without_rule=self._n_without_rule,
        )
