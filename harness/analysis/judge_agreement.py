"""How often a judge agrees with a reference, or with rules: confusion, accuracy, Cohen's kappa.

Abstentions are counted in the confusion and are in no other figure.

>>> found = agreement(np.array([1, 1, 0, -1]), np.array([1, 0, 0, 1]), np.arange(4))
>>> round(found.accuracy.mean, 3), round(found.kappa.mean, 3), found.confusion.abstained_yes
(0.667, 0.4, 1)
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from harness.analysis.clustered import Statistic, linearised, rate
from harness.analysis.judge_pairs import RULES, VerdictPairs, pair_verdicts
from harness.analysis.judge_verdicts import judges_with_verdicts, read_answers
from harness.store.columns import NOT_JUDGED
from harness.store.index import AttemptIndex

RULE_LABEL = "rule"
"""The group that names a constraint's kind of rule."""

MAX_EXAMPLES = 3


class Confusion(Struct, frozen=True, kw_only=True):
    """Criteria by the judge's verdict and, after the underscore, the reference's."""

    yes_yes: int
    yes_no: int
    no_yes: int
    no_no: int
    abstained_yes: int
    abstained_no: int


class Agreement(Struct, frozen=True, kw_only=True):
    """A judge's verdicts compared with a reference's.

    Attributes:
        accuracy: Share of agreement among the criteria that both decided.
        kappa: Cohen's; null if both say the same of everything, so that agreement is certain by
            chance.
        sensitivity, specificity: Of the criteria to which the reference says yes, and no, the share
            to which the judge does, over what it decided.
        reference_abstained: Criteria on which the reference abstains; excluded from other figures.
    """

    accuracy: Statistic
    kappa: Statistic
    sensitivity: Statistic
    specificity: Statistic
    confusion: Confusion
    reference_abstained: int


def agreement(
    judge: NDArray[np.integer], reference: NDArray[np.integer], cluster: NDArray[np.integer]
) -> Agreement:
    """Compare verdicts, each 1, 0 or `NOT_JUDGED`."""
    decided = (judge != NOT_JUDGED) & (reference != NOT_JUDGED)
    own, other, unit = judge[decided] == 1, reference[decided] == 1, cluster[decided]

    def count(says: int, is_: int) -> int:
        return int(np.count_nonzero((judge == says) & (reference == is_)))

    return Agreement(
        accuracy=rate(own == other, unit),
        kappa=cohens_kappa(own, other, unit),
        sensitivity=rate(own[other], unit[other]),
        specificity=rate(~own[~other], unit[~other]),
        confusion=Confusion(
            yes_yes=count(1, 1),
            yes_no=count(1, 0),
            no_yes=count(0, 1),
            no_no=count(0, 0),
            abstained_yes=count(NOT_JUDGED, 1),
            abstained_no=count(NOT_JUDGED, 0),
        ),
        reference_abstained=int(np.count_nonzero(reference == NOT_JUDGED)),
    )


def agreement_of(pairs: VerdictPairs, rows: NDArray[np.bool_]) -> Agreement:
    """Compare the verdicts of some rows."""
    return agreement(pairs.judge[rows], pairs.reference[rows], pairs.cluster[rows])


def cohens_kappa(
    judge: NDArray[np.bool_], reference: NDArray[np.bool_], cluster: NDArray[np.integer]
) -> Statistic:
    """Agreement beyond chance.

    Cohen 1960, "A Coefficient of Agreement for Nominal Scales", equation 1,

        kappa = (p_o - p_e) / (1 - p_e),

    where p_o is the share of agreement and p_e the agreement by chance of two raters with these
    shares of yes. The error is that of its linearisation in the shares, which for independent
    verdicts is the large-sample error of Fleiss, Cohen and Everitt (1969), here clustered
    (`harness.analysis.clustered`).
    """
    if not len(judge):
        return Statistic()
    agree = (judge == reference).astype(np.float64)
    observed, own, other = float(agree.mean()), float(judge.mean()), float(reference.mean())
    chance = own * other + (1 - own) * (1 - other)
    if chance == 1:
        return Statistic(n=len(judge), n_clusters=len(np.unique(cluster)))
    kappa = (observed - chance) / (1 - chance)
    by_chance = (2 * other - 1) * (judge - own) + (2 * own - 1) * (reference - other)
    influence = (agree - observed) / (1 - chance) - (1 - observed) / (1 - chance) ** 2 * by_chance
    return linearised(kappa, influence, cluster, low=-1.0, high=1.0)


class RuleAgreement(Struct, frozen=True, kw_only=True):
    """The constraints of a kind (empty for all) that both a judge and a rule have decided.

    The lists name the first instances with a constraint that only the judge, or only the rule,
    considers met.
    """

    rule: str
    agreement: Agreement
    judge_only: list[str]
    rule_only: list[str]


class JudgeAndRules(Struct, frozen=True, kw_only=True):
    """A judge of a run compared with rules, over each sample's last round.

    Neither is taken as the truth: a rule counts exactly, but may count the wrong thing (a title as
    a line); a judge reads the intent, but counts badly.

    Attributes:
        kinds: The largest first.
        n_skipped: Constraints that only a rule decided, since the judge was not asked.
        n_without_rule: Constraints that no rule decides.
    """

    judge: str
    overall: RuleAgreement
    kinds: list[RuleAgreement]
    n_skipped: int
    n_without_rule: int


def rule_agreement(path: Path) -> list[JudgeAndRules]:
    """Return the judges of a run that report rules' verdicts, in the order of its register.

    A judge with a rule's verdict beside its own reports it in ``details.constraints``: ``passed``
    and ``rule``, and the group ``rule`` for the kind of rule (`yes_no` does).

    >>> rule_agreement(Path("runs/none/attempts.jsonl"))
    []
    """
    found, index = [], AttemptIndex(path)
    for judge in judges_with_verdicts(path):
        pairs = pair_verdicts({judge: read_answers(index, [judge])}, RULES)
        if len(pairs) or pairs.left_out.by_rule:
            kinds = sorted(pairs.by(RULE_LABEL).items(), key=lambda kind: -kind[1].sum())
            found.append(
                JudgeAndRules(
                    judge=judge,
                    overall=_with_rule(pairs, np.ones(len(pairs), np.bool_)),
                    kinds=[_with_rule(pairs, rows, rule) for rule, rows in kinds],
                    n_skipped=pairs.left_out.by_rule,
                    n_without_rule=pairs.left_out.only_judge,
                )
            )
    return found


def _with_rule(pairs: VerdictPairs, rows: NDArray[np.bool_], rule: str = "") -> RuleAgreement:
    def examples(judge: bool) -> list[str]:
        """Name instances with a constraint that just one side considers met."""
        answers = pairs.answer[rows & (pairs.judge == judge) & (pairs.reference == (not judge))]
        return sorted({pairs.instances[answer] for answer in answers})[:MAX_EXAMPLES]

    return RuleAgreement(
        rule=rule,
        agreement=agreement_of(pairs, rows),
        judge_only=examples(True),
        rule_only=examples(False),
    )
