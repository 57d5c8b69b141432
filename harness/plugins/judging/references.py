"""References for a judge, such as human labels (JSONL), and their pairing with its verdicts.

An unparseable, refused or empty judgement is an abstention on all criteria of the reference, which
does not count as a no.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from harness.analysis.breakdown import group_codes
from harness.analysis.failures import MAX_TEXT_CHARS
from harness.datasets.folder import decode_json, numbered_lines
from harness.errors import ConfigError, DataInvalid, reraise_as
from harness.plugins.comparisons.judge_verdicts import JudgedAnswer, JudgeVerdict, Said
from harness.store.columns import NOT_JUDGED, NumericRows, name_digest
from harness.store.file_states import compute_states, find_changed_files, record_states
from harness.store.files import make_folder, write_atomically
from harness.store.run_folder import LABELS, RunFolder
from harness.wording import truncate

RULES = "rules"  # The reference is the rules' verdicts
JUDGE = "judge"  # The reference is another judge, the second of an answer's judges

SILENT = frozenset({"unparseable", "refused", "empty"})  # Judgements that abstain on everything

FORM = (
    'A line has the form {"instance": …, "sample": 0, "criterion": index or text, '
    '"label": true or false} (harness docs judge_validation).'
)


class Label(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A person's verdict on one criterion of one answer."""

    instance: str
    label: bool | None  # None if the person could not decide
    sample: Annotated[int, msgspec.Meta(ge=0)] = 0
    # The criterion's text or its index in the judge's list, or the name of a score. It may be
    # omitted if there is only one.
    criterion: Annotated[int, msgspec.Meta(ge=0)] | str | None = None
    run: str | None = None
    attempt: str | None = None  # hash of the labelled text; another text needs another label
    note: Any = None


def read_labels(path: Path) -> list[Label]:
    """Return the labels in a JSONL file, in order."""
    lines: dict[Label, int] = {}
    labels = []
    for number, label in _labels(path):
        key = replace(label, label=None, attempt=None, note=None)
        if key in lines:
            problem = f"the same criterion was labelled in line {lines[key]}"
            remedy = "Keep one label for each criterion: one person's, or what several agreed on."
            raise DataInvalid(f"{path}, line {number}: {problem}.", remedy)
        lines[key] = number
        labels.append(label)
    if not labels:
        raise DataInvalid(f"{path} holds no labels.", FORM)
    return labels


def kept_labels(run: Path, judge: str) -> dict[str, Path]:
    """Return a run's copies of the label files with which a judge was validated, by file name.

    The key of a copy by an earlier version is "". Copies that were changed are left out.
    """
    folder = run / LABELS / judge
    changed = changed_labels(run, judge)
    labels = {}
    for path in sorted([*folder.glob("*.json"), *folder.glob("*.jsonl")]):
        if path.name not in changed:
            labels[path.name] = path
    earlier = run / LABELS / f"{judge}.jsonl"
    if earlier.is_file():
        labels[""] = earlier
    return labels


def changed_labels(run: Path, judge: str) -> list[str]:
    """Return the names of a judge's label files that were edited or deleted in a run's folder."""
    folder = f"{LABELS}/{judge}/"
    names = find_changed_files(run, lambda name: name.startswith(folder))
    return [name.removeprefix(folder) for name in names]


def keep_labels(folder: RunFolder, judge: str, name: str, labels: Sequence[Label]) -> None:
    """Save labels of a run's answers in its folder, so that reports show the judge's agreement.

    Labels of other runs are left out.

    Raises:
        RunConflict: If another process is working on the run.
        StoreFailed: If the folder cannot be written.
    """
    path = folder.path / LABELS / judge / name
    own_labels = [replace(label, run=None) for label in labels if label.run in (None, folder.name)]
    if not own_labels:
        return
    with folder.lock():
        make_folder(path.parent)
        write_atomically(path, msgspec.json.Encoder().encode_lines(own_labels))
        record_states(folder.path, compute_states(folder.path, [f"{LABELS}/{judge}/{name}"]))


def _labels(path: Path) -> Iterator[tuple[int, Label]]:
    for number, line in numbered_lines(path):
        where = f"{path}, line {number}"
        try:
            with reraise_as(DataInvalid, f"{where}: "):
                row = decode_json(line, dict[str, Any])
            yield number, msgspec.convert(row, Label)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            problem = f"not a valid object ({str(error)[:160]})"
            raise DataInvalid(f"{where}: {problem}.", FORM) from None


Key = tuple[str, int]  # A criterion's text, and its number among the criteria with that text
Side = Mapping[Key, bool | None]


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of the criteria and labels that are excluded, by reason."""

    only_judge: int = 0  # criteria without a judgement by the reference
    only_reference: int = 0  # criteria without a judgement by the judge
    by_rule: int = 0  # criteria that a rule decided: the judge was not called
    unmatched: int = 0  # labels that match nothing in the run
    superseded: int = 0  # labels of a text that the run no longer has
    other_runs: int = 0  # labels of runs that are not validated

    def said(self) -> str:
        """Return the reasons with their counts as text, or "" if nothing is excluded."""
        counts = {
            "criteria that only the judge has": self.only_judge,
            "criteria that only the reference has": self.only_reference,
            "criteria that a rule decided instead of the judge": self.by_rule,
            "labels that match nothing in the runs": self.unmatched,
            "labels of superseded texts": self.superseded,
            "labels of runs that were not named": self.other_runs,
        }
        return ", ".join(f"{what} ({n:,})" for what, n in counts.items() if n)


@dataclass(frozen=True, slots=True)
class VerdictPairs:
    """A judge's and a reference's verdicts on the same n criteria: 1, 0 or `NOT_JUDGED`."""

    judge: NDArray[np.int8]
    reference: NDArray[np.int8]
    probability: NDArray[np.float64]  # the judge's, of yes; NaN if unknown
    reference_probability: NDArray[np.float64]  # likewise, if the reference is a judge
    cluster: NDArray[np.intp]  # index of the statistical unit, which runs may share
    run: NDArray[np.int32]  # index of the run
    answer: NDArray[np.int32]  # number of the judged answer
    grouping: NDArray[np.int32]  # index into the distinct mappings of label to group
    groupings: Sequence[Mapping[str, str]]
    left_out: LeftOut
    unmatched: str = ""  # a sentence on one of the labels that match nothing, and why

    def __len__(self) -> int:
        return len(self.judge)

    def labels(self) -> list[str]:
        """Return the labels that criteria can be grouped by."""
        return list(dict.fromkeys(label for groups in self.groupings for label in groups))

    def by(self, label: str) -> dict[str, NDArray[np.bool_]]:
        """Return an (n,) mask of the criteria in each group of a label, by sorted group name."""
        codes, names = group_codes(self.groupings, (label,))
        return {name: codes[self.grouping] == number for number, (name,) in enumerate(names)}


def pair_verdicts(
    runs: Mapping[str, Iterable[JudgedAnswer]], reference: str | Sequence[Label]
) -> VerdictPairs:
    """Pair the verdicts of a judge with those of a reference.

    Args:
        runs: The answers of each run, by the run's name. The first verdicts in an answer are those
            of the judge to validate.
        reference: `JUDGE` if the reference is the judge whose verdicts are the second in each
            answer, `RULES` if it is the rule checkers' verdicts on the judge's criteria, otherwise
            people's labels.
    """
    labels = {} if isinstance(reference, str) else _by_answer(reference, list(runs))
    kinds = {"judge": "b", "reference": "b", "probability": "d", "reference_probability": "d"}
    kinds |= {"cluster": "q", "run": "i", "answer": "i", "grouping": "i"}
    rows = NumericRows(**kinds)
    groupings: dict[tuple[tuple[str, str], ...], int] = {}
    unmatched: list[tuple[Label, str]] = []  # with the reasons
    left = Counter[str]()
    for answer_key in [*labels]:
        if answer_key[0] not in runs:
            left["other_runs"] += len(labels.pop(answer_key))
    for number, (run, name, answer) in enumerate(_answers(runs)):
        judge = answer.said[0]
        second = answer.said[1] if reference == JUDGE else None
        judge_verdicts = _keyed(judge)
        seconded = _keyed(second)
        reference_verdicts: Side
        if reference == RULES:
            rules = {key: verdict.rule for key, verdict in judge_verdicts.items()}
            reference_verdicts = {key: rule for key, rule in rules.items() if rule is not None}
        elif reference == JUDGE:
            reference_verdicts = {key: verdict.passed for key, verdict in seconded.items()}
        else:
            of_answer = labels.pop((name, answer.instance, answer.sample), [])
            reference_verdicts, superseded, of_no_criterion = _labelled(
                answer, of_answer, list(judge_verdicts)
            )
            left["superseded"] += superseded
            unmatched += of_no_criterion
        for key in dict.fromkeys([*judge_verdicts, *reference_verdicts]):
            verdict = judge_verdicts.get(key, JudgeVerdict(key[0], None))
            if verdict.by_rule:  # by rules, the judge would always be right
                left["by_rule"] += 1
            elif key not in reference_verdicts and not _is_silent(second):
                left["only_judge"] += 1
            elif key not in judge_verdicts and not _is_silent(judge):
                left["only_reference"] += 1
            else:
                groups = tuple(sorted(verdict.groups.items()))
                rows.append(
                    _code(verdict.passed),
                    _code(reference_verdicts.get(key)),
                    _probability(verdict),
                    _probability(seconded.get(key)),
                    name_digest(answer.cluster),
                    run,
                    number,
                    groupings.setdefault(groups, len(groupings)),
                )
    columns = {column: rows.column(column) for column in kinds}
    columns["cluster"] = np.unique(columns["cluster"], return_inverse=True)[1]
    for (name, *_), of_answer in labels.items():
        unmatched += [(label, f"{name!r} has no such answer") for label in of_answer]
    left["unmatched"] = len(unmatched)
    example = ""
    for label, why in unmatched[:1]:
        which = f"sample {label.sample} of {label.instance!r}"
        example = f"For example, the label of {which} matches nothing: {why}."
    return VerdictPairs(
        **columns,
        groupings=list(map(dict, groupings)),
        left_out=LeftOut(**left),
        unmatched=example,
    )


def _answers(
    runs: Mapping[str, Iterable[JudgedAnswer]],
) -> Iterator[tuple[int, str, JudgedAnswer]]:
    """Yield the answers of all runs, each with the run's number and name."""
    for number, (name, answers) in enumerate(runs.items()):
        for answer in answers:
            yield number, name, answer


def _by_answer(
    labels: Sequence[Label], runs: Sequence[str]
) -> dict[tuple[str, str, int], list[Label]]:
    by_answer: dict[tuple[str, str, int], list[Label]] = {}
    for label in labels:
        if label.run is None and len(runs) > 1:
            problem = f"A label of {label.instance!r} does not name its run."
            raise ConfigError(problem, 'With several runs each label needs "run": "NAME".')
        key = label.run or runs[0], label.instance, label.sample
        by_answer.setdefault(key, []).append(label)
    return by_answer


def _labelled(
    answer: JudgedAnswer, labels: Sequence[Label], keys: Sequence[Key]
) -> tuple[Side, int, list[tuple[Label, str]]]:
    """Return labels by criterion, the number of superseded labels, and unmatched ones with why."""
    verdicts: dict[Key, bool | None] = {}
    superseded = 0
    unmatched = []
    for label in labels:
        if label.attempt not in (None, answer.attempt):
            superseded += 1
            continue
        matched = _matched(label.criterion, keys)
        if not matched:
            criterion = "no criterion"
            if label.criterion is not None:
                criterion = f"criterion {label.criterion!r}"
            first = truncate(keys[0][0], MAX_TEXT_CHARS)
            why = f"it names {criterion}; the judge has {len(keys):,}, and number 0 is {first!r}"
            unmatched.append((label, why))
        for key in matched:
            if key in verdicts:
                which = f"{answer.instance!r}, sample {answer.sample}"
                problem = f"Two labels of {which} are for one criterion: {key[0]!r}."
                raise ConfigError(problem, "Keep one of them.")
            verdicts[key] = label.label
    return verdicts, superseded, unmatched


def _matched(criterion: int | str | None, keys: Sequence[Key]) -> list[Key]:
    """Return the keys that a label's ``criterion`` names, or a new key if there are no ``keys``."""
    if not keys:
        return [("" if criterion is None else str(criterion), 0)]
    if criterion is None:
        return list(keys) if len(keys) == 1 else []
    if isinstance(criterion, int):
        return list(keys[criterion : criterion + 1])
    return [key for key in keys if key[0].split() == criterion.split()]


def _keyed(judged: Said | None) -> dict[Key, JudgeVerdict]:
    verdicts: dict[Key, JudgeVerdict] = {}
    times = Counter[str]()
    for verdict in judged.verdicts if judged else ():
        verdicts[verdict.criterion, times[verdict.criterion]] = verdict
        times[verdict.criterion] += 1
    return verdicts


def _is_silent(judged: Said | None) -> bool:
    return judged is not None and not judged.verdicts and judged.outcome in SILENT


def _probability(verdict: JudgeVerdict | None) -> float:
    if verdict is None or verdict.passed is None or verdict.probability is None:
        return np.nan
    return verdict.probability


def _code(passed: bool | None) -> int:
    return NOT_JUDGED if passed is None else int(passed)
