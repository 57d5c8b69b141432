"""An index over a run's `judgements.jsonl`, by judge, attempt and judged text.

For each judge, attempt and text, the last judgement counts. The index takes about 40 bytes per
judgement, plus the values of scores.
"""

import struct
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar, get_args

import msgspec
import numpy as np
from numpy.typing import NDArray

from harness.records import OUTCOMES
from harness.store import judgements
from harness.store.columns import (
    NOT_JUDGED,
    AttemptTable,
    Bools,
    LineKey,
    NumericRows,
    ScoreColumns,
    ScoreValue,
    Values,
)
from harness.store.file_states import LineSeals
from harness.store.json_lines import decode_lines, decode_lines_at
from harness.store.run_folder import JUDGEMENTS

S = TypeVar("S")

_OUTCOMES: tuple[judgements.JudgementOutcome, ...] = get_args(judgements.JudgementOutcome)

NO_VERDICT = 2  # code of a judgement whose scores include no verdict
MISSING = -1  # row number that stands for a missing judgement
_NO_ROWS = np.empty(0, np.intp)


def judgement_key(instance: str, sample: int, round_: int, text: str | None) -> int:
    """Hash an attempt's identity and text (None: empty) to 64 bits, the same in every process."""
    return _hash_key(instance, sample, round_, judgements.text_hash(text or ""))


def _hash_key(instance: str, sample: int, round_: int, attempt: str) -> int:
    name = f"{instance}\0{sample}\0{round_}\0{attempt}"
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little", signed=True)


class _Score(ScoreValue, gc=False):
    passed: bool | None = None


class _Line(LineKey, gc=False):
    judge: str
    attempt: str
    outcome: judgements.JudgementOutcome
    scores: dict[str, _Score] = msgspec.field(default_factory=dict)

    def verdict(self) -> int:
        """Return a verdict as a number: `NOT_JUDGED`, `NO_VERDICT`, 1 (all true) or 0."""
        if self.outcome != "ok":
            return NOT_JUDGED
        verdicts = {score.passed for score in self.scores.values()}
        if False in verdicts:
            return 0
        if any(score.value is None for score in self.scores.values()):
            return NOT_JUDGED
        return 1 if True in verdicts else NO_VERDICT


class JudgementIndex:
    """The judgements, sorted by `judgement_key`. `MISSING` is the row of a missing one.

    ``partial`` is as in `read_register`.
    """

    def __init__(self, folder: Path, *, partial: bool = False) -> None:
        self.register: judgements.Register = judgements.read_register(folder, partial=partial)
        self._path = folder / JUDGEMENTS
        codes = {name: code for code, name in enumerate(self.register.judges)}
        self._score_columns = {name: ScoreColumns() for name in codes}
        rows = NumericRows(key="q", offset="q", judge="h", verdict="b", outcome="b", line="i")
        seals = LineSeals(folder)
        for number, offset, line in decode_lines(
            self._path, _Line, judgements.JUDGEMENT, check=seals.check
        ):
            if line.judge not in codes:  # a later judge, and ``judges.json`` was removed
                continue
            key = _hash_key(line.instance, line.sample, line.round, line.attempt)
            outcome = _OUTCOMES.index(line.outcome)
            try:
                place = self._score_columns[line.judge].add(line.scores)
                rows.append(key, offset, codes[line.judge], line.verdict(), outcome, place)
            except (OverflowError, struct.error) as error:
                raise judgements.JUDGEMENT.line_error(self._path, number, error) from None
        # The sort is stable: among equal keys, the file's last line stays last.
        order = np.argsort(rows.column("key"), kind="stable")

        def sorted_column(name: str) -> NDArray[Any]:
            values = rows.column(name)[order]
            return np.append(values, values.dtype.type(MISSING))

        self._key = sorted_column("key")
        self._offset = sorted_column("offset")
        self._line = sorted_column("line")
        self._verdict = sorted_column("verdict")
        self._outcome = sorted_column("outcome")
        judge = sorted_column("judge")
        self._rows_of = {name: np.flatnonzero(judge == code) for name, code in codes.items()}
        self._keys_of = {name: self._key[rows_of] for name, rows_of in self._rows_of.items()}

    def match_rows(self, judge: str, keys: NDArray[np.int64]) -> NDArray[np.intp]:
        """Return the row of a judge's last judgement for each key (`MISSING`: missing)."""
        rows = self._rows_of.get(judge, _NO_ROWS)
        if not len(rows):
            return np.full(len(keys), MISSING, np.intp)
        nearest = rows[np.searchsorted(self._keys_of[judge], keys, side="right") - 1]
        return np.where(self._key[nearest] == keys, nearest, MISSING)

    def offsets(self, rows: NDArray[np.intp]) -> NDArray[np.int64]:
        """Return the byte offset of each row's line (`MISSING`: missing)."""
        return self._offset[rows]

    def read_latest(
        self, instance: str, sample: int, round_: int, text: str | None
    ) -> dict[str, judgements.Judgement]:
        """Return the last judgement of a text by each judge."""
        keys = np.array([judgement_key(instance, sample, round_, text)])
        names = list(self.register.judges)
        rows = np.array([[self.match_rows(name, keys)[0] for name in names]], np.intp)
        decode = msgspec.json.Decoder(judgements.Judgement).decode
        (last,) = read_judgements(self._path, self.offsets(rows).tolist(), decode)
        pairs = zip(names, last, strict=True)
        return {name: judgement for name, judgement in pairs if judgement is not None}

    def count_answers(
        self, judge: str, instance: str, sample: int, round_: int, text: str | None
    ) -> int:
        """Return the number of a judge's judgements of a text, not counting failures."""
        keys = np.array([judgement_key(instance, sample, round_, text)])
        return int(self._count_answers(judge, keys)[0])

    def count_redraws(
        self, table: AttemptTable, keys: NDArray[np.int64]
    ) -> dict[str, judgements.Redraws]:
        """Return, for each judge, how often it has judged attempts again. Failures do not count."""
        judged = self.is_judged(table)
        redraws = {}
        for name, judge in self.register.judges.items():
            if judge.members:
                continue
            repeats = np.maximum(self._count_answers(name, keys[judged]) - 1, 0)
            redraws[name] = judgements.Redraws(int(repeats.sum()), int(repeats.max(initial=0)))
        return redraws

    def add_scores(
        self,
        table: AttemptTable,
        keys: NDArray[np.int64],
        neutral: Bools,
        ignored: Collection[str] = (),
    ) -> tuple[AttemptTable, Bools]:
        """Add the judges' scores to a table, and combine verdicts as in `combined_verdict`.

        Args:
            table: The attempts, with the scores and verdicts of the rules.
            keys: (n,) `judgement_key` of each attempt.
            neutral: (n,) mask of the attempts that all rules have judged without a verdict.
            ignored: Names of judges whose verdicts do not count.

        Returns:
            The new table, and an (n,) mask of the attempts that all rules and judges have judged
            without a verdict.
        """
        judged = self.is_judged(table)
        scores: dict[str, Values] = dict(table.scores)
        shares = dict(table.shares)
        says_true = table.passed == 1
        says_any = table.has_verdict | ~judged
        unknown = ~table.has_verdict & ~(neutral & judged)
        missing = ~table.has_verdict & ~judged
        for name, judge in self.register.judges.items():
            rows = np.where(judged, self.match_rows(name, keys), MISSING)
            scores |= self._score_columns[name].take(self._line[rows])
            shares |= self._score_columns[name].shares
            if not judge.decides or name in ignored:
                continue
            verdict = self._verdict[rows]
            unknown |= judged & (verdict == NOT_JUDGED)
            missing |= judged & (
                (rows == MISSING) | self._has_outcome(rows, judgements.FAILED_OUTCOMES)
            )
            has_verdict = judged & (verdict != NOT_JUDGED) & (verdict != NO_VERDICT)
            is_true = (verdict == 1) & (says_true | ~says_any)
            says_true = np.where(has_verdict, is_true, says_true)
            says_any |= has_verdict
        failed = says_any & ~says_true & ~missing
        passed = np.where(failed | says_any & ~unknown, says_true, NOT_JUDGED).astype(np.int8)
        return replace(table, passed=passed, scores=scores, shares=shares), ~says_any & ~unknown

    def missing_judges(
        self,
        table: AttemptTable,
        keys: NDArray[np.int64],
        judges: Sequence[str],
        retried: Collection[judgements.JudgementOutcome],
    ) -> dict[int, Mapping[str, int]]:
        """Return the judges that have yet to judge each attempt, by the attempt's row.

        A judge's name maps to the number of its judgements so far, not counting failures. ``keys``
        has the (n,) `judgement_key` of each attempt. Outcomes in ``retried`` count as missing.
        """
        judged = self.is_judged(table)
        missing = np.zeros((len(table), len(judges)), np.bool_)
        answers = np.zeros(missing.shape, np.int32)
        for place, name in enumerate(judges):
            rows = self.match_rows(name, keys)
            done = (rows != MISSING) & ~self._has_outcome(rows, retried)
            members = self.register.judges[name].members if name in self.register.judges else ()
            for member in members:  # a panel is recomputed after a new judgement by any of them
                later = self.match_rows(member, keys)
                done &= (later <= rows) | self._has_outcome(later, judgements.FAILED_OUTCOMES)
            missing[:, place] = judged & ~done
            answers[:, place] = self._count_answers(name, keys)
        shared: dict[tuple[int, ...], Mapping[str, int]] = {}  # few distinct values
        by_row: dict[int, Mapping[str, int]] = {}
        for row in np.flatnonzero(missing.any(axis=1)).tolist():
            counts = tuple(np.where(missing[row], answers[row], MISSING).tolist())
            if counts not in shared:
                pairs = zip(judges, counts, strict=True)
                shared[counts] = {name: count for name, count in pairs if count != MISSING}
            by_row[row] = shared[counts]
        return by_row

    def is_judged(self, table: AttemptTable, rows: NDArray[np.intp] | None = None) -> Bools:
        """Return a mask of the attempts (or of ``rows``) whose outcome judges score."""
        outcome = table.outcome if rows is None else table.outcome[rows]
        return np.isin(outcome, list(map(OUTCOMES.index, self.register.judged)))

    def _has_outcome(
        self, rows: NDArray[np.intp], outcomes: Collection[judgements.JudgementOutcome]
    ) -> Bools:
        return np.isin(self._outcome[rows], list(map(_OUTCOMES.index, outcomes)))

    def _count_answers(self, judge: str, keys: NDArray[np.int64]) -> NDArray[np.intp]:
        rows = self._rows_of.get(judge, _NO_ROWS)
        answered = self._key[rows[~self._has_outcome(rows, judgements.FAILED_OUTCOMES)]]
        first = np.searchsorted(answered, keys, side="left")
        return np.searchsorted(answered, keys, side="right") - first


def read_judgements(
    path: Path, offsets: Sequence[Sequence[int]], decode: Callable[[bytes], S]
) -> Iterator[list[S | None]]:
    """Yield a list of judgements for each list of byte offsets. `MISSING` becomes None."""
    present = filter(MISSING.__ne__, chain.from_iterable(offsets))
    lines = decode_lines_at(path, present, decode, judgements.JUDGEMENT)
    for row in offsets:
        yield [None if offset == MISSING else next(lines) for offset in row]
