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
MISSING = -1  # row or byte offset of a missing judgement
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
        """Return the code of the line's verdict: `NOT_JUDGED`, `NO_VERDICT`, 1 (passed) or 0."""
        if self.outcome != "ok":
            return NOT_JUDGED
        verdicts = {score.passed for score in self.scores.values()}
        if False in verdicts:
            return 0
        if any(score.value is None for score in self.scores.values()):
            return NOT_JUDGED
        return 1 if True in verdicts else NO_VERDICT


class JudgementIndex:
    """The judgements of a run as rows, sorted by `judgement_key`.

    Args:
        folder: The run's folder.
        partial: As in `read_register`.

    Raises:
        DataInvalid: If a line is damaged.
    """

    def __init__(self, folder: Path, *, partial: bool = False) -> None:
        self.register: judgements.Register = judgements.read_register(folder, partial=partial)
        self._path = folder / JUDGEMENTS
        codes = {name: code for code, name in enumerate(self.register.judges)}
        self._score_columns = {name: ScoreColumns() for name in codes}
        rows = self._read_rows(codes, LineSeals(folder))
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
        self._judge_rows = {name: np.flatnonzero(judge == code) for name, code in codes.items()}
        self._judge_keys = {name: self._key[rows] for name, rows in self._judge_rows.items()}

    def _read_rows(self, codes: Mapping[str, int], seals: LineSeals) -> NumericRows:
        """Read the lines of the judges in ``codes``, and collect their scores."""
        rows = NumericRows(key="q", offset="q", judge="h", verdict="b", outcome="b", line="i")
        for number, offset, line in decode_lines(
            self._path, _Line, judgements.JUDGEMENT, check=seals.check
        ):
            if line.judge not in codes:  # a judge added later, and ``judges.json`` was removed
                continue
            key = _hash_key(line.instance, line.sample, line.round, line.attempt)
            outcome = _OUTCOMES.index(line.outcome)
            try:
                score_line = self._score_columns[line.judge].add(line.scores)
                rows.append(key, offset, codes[line.judge], line.verdict(), outcome, score_line)
            except (OverflowError, struct.error) as error:
                raise judgements.JUDGEMENT.line_error(self._path, number, error) from None
        return rows

    def match_rows(self, judge: str, keys: NDArray[np.int64]) -> NDArray[np.intp]:
        """Return the row of a judge's last judgement for each key (`MISSING`: none)."""
        rows = self._judge_rows.get(judge, _NO_ROWS)
        if not len(rows):
            return np.full(len(keys), MISSING, np.intp)
        nearest = rows[np.searchsorted(self._judge_keys[judge], keys, side="right") - 1]
        return np.where(self._key[nearest] == keys, nearest, MISSING)

    def offsets(self, rows: NDArray[np.intp]) -> NDArray[np.int64]:
        """Return the byte offset of each row's line (`MISSING` for `MISSING`)."""
        return self._offset[rows]

    def read_latest(
        self, instance: str, sample: int, round_: int, text: str | None
    ) -> dict[str, judgements.Judgement]:
        """Return the last judgement of an attempt's text by each judge that has judged it."""
        keys = np.array([judgement_key(instance, sample, round_, text)])
        names = list(self.register.judges)
        rows = np.array([[self.match_rows(name, keys)[0] for name in names]], np.intp)
        decode = msgspec.json.Decoder(judgements.Judgement).decode
        (latest,) = read_judgements(self._path, self.offsets(rows).tolist(), decode)
        pairs = zip(names, latest, strict=True)
        return {name: judgement for name, judgement in pairs if judgement is not None}

    def count_judgements(
        self, judge: str, instance: str, sample: int, round_: int, text: str | None
    ) -> int:
        """Return the number of a judge's judgements of an attempt's text, without failures.

        ``text=None`` is the same as an empty text: the attempt has none.
        """
        keys = np.array([judgement_key(instance, sample, round_, text)])
        return int(self._count_judgements(judge, keys)[0])

    def count_redraws(
        self, table: AttemptTable, keys: NDArray[np.int64]
    ) -> dict[str, judgements.Redraws]:
        """Return how often each judge has repeated judgements. Failures do not count.

        ``keys`` has the (n,) `judgement_key` of each attempt.
        """
        is_judged = self.is_judged(table)
        redraws = {}
        for name, judge in self.register.judges.items():
            if judge.members:
                continue
            repeats = np.maximum(self._count_judgements(name, keys[is_judged]) - 1, 0)
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
        is_judged = self.is_judged(table)
        scores: dict[str, Values] = dict(table.scores)
        shares = dict(table.shares)
        all_true = table.passed == 1  # all verdicts so far
        has_verdict = table.has_verdict | ~is_judged
        is_unknown = ~table.has_verdict & ~(neutral & is_judged)
        is_missing = ~table.has_verdict & ~is_judged
        for name, judge in self.register.judges.items():
            rows = np.where(is_judged, self.match_rows(name, keys), MISSING)
            scores |= self._score_columns[name].take(self._line[rows])
            shares |= self._score_columns[name].shares
            if not judge.decides or name in ignored:
                continue
            verdict = self._verdict[rows]
            has_failed = self._has_outcome(rows, judgements.FAILED_OUTCOMES)
            is_unknown |= is_judged & (verdict == NOT_JUDGED)
            is_missing |= is_judged & ((rows == MISSING) | has_failed)
            judge_decides = is_judged & (verdict != NOT_JUDGED) & (verdict != NO_VERDICT)
            is_true = (verdict == 1) & (all_true | ~has_verdict)
            all_true = np.where(judge_decides, is_true, all_true)
            has_verdict |= judge_decides
        is_failed = has_verdict & ~all_true & ~is_missing
        is_decided = is_failed | has_verdict & ~is_unknown
        passed = np.where(is_decided, all_true, NOT_JUDGED).astype(np.int8)
        combined = replace(table, passed=passed, scores=scores, shares=shares)
        return combined, ~has_verdict & ~is_unknown

    def missing_judges(
        self,
        table: AttemptTable,
        keys: NDArray[np.int64],
        judges: Sequence[str],
        retried: Collection[judgements.JudgementOutcome],
    ) -> dict[int, Mapping[str, int]]:
        """Return which judges have yet to judge each attempt.

        Args:
            table: The attempts.
            keys: (n,) `judgement_key` of each attempt.
            judges: The judges' names.
            retried: Outcomes of judgements that must be repeated.

        Returns:
            By the attempt's row, the names of the judges, each with the number of its judgements so
            far, without failures.
        """
        is_judged = self.is_judged(table)
        missing = np.zeros((len(table), len(judges)), np.bool_)
        answers = np.zeros(missing.shape, np.int32)
        for column, name in enumerate(judges):
            rows = self.match_rows(name, keys)
            is_done = (rows != MISSING) & ~self._has_outcome(rows, retried)
            members = self.register.judges[name].members if name in self.register.judges else ()
            for member in members:  # a panel is recomputed after a new judgement by any of them
                member_rows = self.match_rows(member, keys)
                has_failed = self._has_outcome(member_rows, judgements.FAILED_OUTCOMES)
                is_done &= (member_rows <= rows) | has_failed
            missing[:, column] = is_judged & ~is_done
            answers[:, column] = self._count_judgements(name, keys)
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
        """Return a mask of the attempts (or only of ``rows``) with an outcome that judges score."""
        outcome = table.outcome if rows is None else table.outcome[rows]
        return np.isin(outcome, list(map(OUTCOMES.index, self.register.judged)))

    def _has_outcome(
        self, rows: NDArray[np.intp], outcomes: Collection[judgements.JudgementOutcome]
    ) -> Bools:
        return np.isin(self._outcome[rows], list(map(_OUTCOMES.index, outcomes)))

    def _count_judgements(self, judge: str, keys: NDArray[np.int64]) -> NDArray[np.intp]:
        rows = self._judge_rows.get(judge, _NO_ROWS)
        answered = self._key[rows[~self._has_outcome(rows, judgements.FAILED_OUTCOMES)]]
        first = np.searchsorted(answered, keys, side="left")
        return np.searchsorted(answered, keys, side="right") - first


def read_judgements(
    path: Path, offsets: Sequence[Sequence[int]], decode: Callable[[bytes], S]
) -> Iterator[list[S | None]]:
    """Yield the judgements at each list of byte offsets. `MISSING` becomes None."""
    present = filter(MISSING.__ne__, chain.from_iterable(offsets))
    lines = decode_lines_at(path, present, decode, judgements.JUDGEMENT)
    for row_offsets in offsets:
        yield [None if offset == MISSING else next(lines) for offset in row_offsets]
