"""An index over a run's `attempts.jsonl`: which lines count, and where they are in the file.

For each instance, sample and round, the last line counts, of those with the highest
``request.redraw``. The sample's later rounds that precede this line in the file do not count,
because they follow a superseded answer. The index takes tens of bytes of memory per attempt.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from harness.records import OUTCOMES, Attempt, Outcome, PlayedTurn, Time, Usage
from harness.store.attempt_lines import ATTEMPT, CALL_COLUMNS, AttemptLines, read_counted_attempts
from harness.store.columns import (
    NOT_JUDGED,
    AttemptTable,
    Bools,
    Ints,
    LineKey,
    Values,
    name_digest,
    natural_sort_key,
)
from harness.store.file_states import REDRAWS_KEY
from harness.store.files import open_regular_file
from harness.store.json_lines import convert_read_errors, decode_lines, decode_lines_at, read_lines
from harness.store.judgement_index import MISSING, JudgementIndex, read_judgements
from harness.store.judgements import (
    FAILED_OUTCOMES,
    REDRAWN_OUTCOMES,
    JudgedAttempt,
    Judgement,
    JudgementOutcome,
    Redraws,
    Register,
    has_judges,
)
from harness.store.lost_lines import check_settings
from harness.store.run_folder import JUDGEMENTS, SCORES, RunFolder

S = TypeVar("S", bound=msgspec.Struct)


class AttemptLine(msgspec.Struct, kw_only=True, gc=False):
    """The fields of an attempt that reports and exports read, for use with `AttemptIndex.read`."""

    instance: str
    sample: int
    round: int
    groups: dict[str, str]
    cluster: str
    outcome: Outcome
    started_at: Time
    ended_at: Time
    text: str | None = None
    reasoning: str | None = None
    finish_reason: str | None = None
    passed: bool | None = None
    feedback: str | None = None
    call_id: str | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    latency_s: float | None = None
    cached: bool = False
    error: str | None = None
    turns: int | None = None
    user: tuple[PlayedTurn, ...] = ()


class AttemptIndex:
    """The attempts in a file that count, as rows sorted by instance, sample and round.

    The index does not see changes of the file after it was built.

    Args:
        path: The attempts file, which need not exist.
        judges: Whether to add the scores and verdicts of judges to those of the rules.
        lines: The lines read so far of a growing file (default: they are read now).
        partial: As in `read_register`.

    Raises:
        DataInvalid: If a line is damaged.
        StoreFailed: If a file cannot be read, or the run's settings were changed.
    """

    def __init__(
        self,
        path: Path,
        *,
        judges: bool = True,
        lines: AttemptLines | None = None,
        partial: bool = False,
    ) -> None:
        self.path = path
        if judges and not partial:
            check_settings(path.parent)
        is_judged = judges and has_judges(path.parent)
        if lines is None:
            counted = read_counted_attempts(path, "judged" if is_judged else "")
        else:
            counted = lines.counted_attempts()
        rule_table = counted.table
        columns = counted.columns
        # (n,) number of the first draw of each answer that the file lacks
        self._first_lost_draw = counted.first_lost_draw
        self._redraw: Ints = columns["redraw"]
        # (n,) byte offset of each attempt's line
        self.offset: NDArray[np.int64] = columns["offset"]
        self.call_columns: Mapping[str, NDArray[Any]] = {
            name: columns[name] for name in CALL_COLUMNS if name in columns
        }
        self.judgements: JudgementIndex | None = None
        if is_judged:
            self._keys: NDArray[np.int64] = columns["key"]
            self.judgements = JudgementIndex(path.parent, partial=partial)
        self._rule_table = rule_table
        is_error = rule_table.outcome == OUTCOMES.index("error")
        self._neutral_by_rules: Bools = (columns["neutral"] != 0) & ~is_error
        self._turns: Ints = columns["turns"]
        # (n,) mask of the attempts that all rules and judges have judged without a verdict
        self.attempts, self.neutral = self._with_judges()
        judged_table = self.attempts
        self._passed: NDArray[Any] = judged_table.passed
        if judged_table.turns is not None:  # earlier turns keep their own verdicts
            self._passed = np.where(
                judged_table.is_last_round(), judged_table.passed, judged_table.turns.passed
            )
        self._build_look_up(judged_table)

    def _build_look_up(self, table: AttemptTable) -> None:
        """Build the arrays in which `find_rows` and `next_round` look up a table's rows.

        They are views: indexing an array takes a microsecond, and a look-up does it 40 times.
        """
        self._digests = table.instances.digest.data
        self._first_row_of_instance = np.searchsorted(
            table.instance, np.arange(len(self._digests) + 1)
        ).data
        self._sample = table.sample.data
        self._round = table.round.data

    def __len__(self) -> int:
        return len(self.offset)

    @property
    def register(self) -> Register:
        """The run's judges, or an empty register if the index covers no judgements."""
        return Register() if self.judgements is None else self.judgements.register

    @property
    def size(self) -> int:
        """The size in bytes of the complete lines that were read."""
        if not len(self):
            return 0
        last_offset = int(self.offset.max())
        with convert_read_errors(self.path), open_regular_file(self.path) as file:
            file.seek(last_offset)
            return last_offset + len(file.readline())

    def find_rows(self, instance: str, sample: int | None = None) -> range:
        """Return the rows of an instance, or of one of its samples. The range may be empty."""
        digest = name_digest(instance)
        index = bisect_left(self._digests, digest)
        if index == len(self._digests) or self._digests[index] != digest:
            return range(0)
        start = self._first_row_of_instance[index]
        end = self._first_row_of_instance[index + 1]
        if sample is None:
            return range(start, end)
        first = bisect_left(self._sample, sample, start, end)
        return range(first, bisect_right(self._sample, sample, first, end))

    def attempts_without(self, judges: Collection[str]) -> AttemptTable:
        """Return the attempts with verdicts that ignore the named judges."""
        if self.judgements is None:
            return self.attempts
        return self._with_judges(judges)[0]

    def _with_judges(self, ignored: Collection[str] = ()) -> tuple[AttemptTable, NDArray[np.bool_]]:
        table = self._rule_table
        neutral = self._neutral_by_rules
        if self.judgements is not None:
            table, neutral = self.judgements.add_scores(table, self._keys, neutral, ignored)
        return combine_turns(table, self._turns, neutral), neutral

    def _find_row(self, instance: str, sample: int, round_: int) -> int | None:
        for row in self.find_rows(instance, sample):
            if self._round[row] == round_:
                return row
        return None

    def next_round(
        self,
        instance: str,
        sample: int,
        *,
        rounds: int,
        stop_on_pass: bool,
        retried: Collection[str] = frozenset({"error"}),
        retried_rows: Collection[int] = (),
        final: Collection[Outcome] = (),
    ) -> int | None:
        """Return the number of a sample's first round that must be run (None: it is finished).

        Args:
            instance: The instance's name.
            sample: The sample's number.
            rounds: Maximum number of rounds.
            stop_on_pass: Whether a passed round ends the sample.
            retried: Outcomes of rounds that must be run again.
            retried_rows: Rows of rounds that must be run again.
            final: Outcomes that end the sample. The last turn of a conversation also ends it.
        """
        for number in range(1, rounds + 1):
            row = self._find_row(instance, sample, number)
            if row is None or row in retried_rows:
                return number
            if (outcome := OUTCOMES[self.attempts.outcome[row]]) in retried:
                return number
            if outcome in final or self._turns[row] == number:
                return None
            if stop_on_pass and self.attempts.passed[row] == 1:
                return None
        return None

    def rows_with_finish_reason(self, reasons: Collection[str]) -> set[int]:
        """Return the rows of the attempts with one of these finish reasons."""
        if not reasons:
            return set()
        lines = zip(self.ordered_rows().tolist(), self.read(_FinishReasonLine), strict=True)
        return {row for row, line in lines if line.finish_reason in reasons}

    def finish_reasons(self) -> set[str]:
        """Return all finish reasons that occur in the attempts."""
        lines = self.read(_FinishReasonLine)
        return {line.finish_reason for line in lines if line.finish_reason}

    def count_answers(self, instance: str, sample: int, round_: int) -> int:
        """Return how often a round was answered since its conversation last changed."""
        row = self._find_row(instance, sample, round_)
        return 0 if row is None else int(self._redraw[row] + self.attempts.has_reply[row])

    def read_rounds(self, instance: str, sample: int, before: int) -> list[Attempt]:
        """Read a sample's attempts in rounds before ``before``, without judges' scores."""
        rows = [row for row in self.find_rows(instance, sample) if self._round[row] < before]
        return list(self.read(Attempt, rows, judged=False))

    @property
    def n_repeated(self) -> int:
        """The number of answers that replaced an earlier one in the same conversation."""
        return int(np.maximum(self._first_lost_draw - 1, 0).sum())

    def lost_draws(self, instance: str, sample: int) -> Iterator[tuple[int, int]]:
        """Yield the rounds of a sample that count, but of which an earlier draw is lost.

        Yields:
            The number of the round, and that of its first lost draw. Rounds after a missing round
            are not considered.
        """
        for round_, row in enumerate(self.find_rows(instance, sample), start=1):
            if self._round[row] != round_:
                return
            if self._first_lost_draw[row] < self._redraw[row]:
                yield round_, int(self._first_lost_draw[row])

    def ordered_rows(self) -> NDArray[np.intp]:
        """Return all rows, sorted by instance (in the order of first lines), sample and round."""
        first = np.full(len(self.attempts.instances.digest), np.iinfo(np.int64).max)
        np.minimum.at(first, self.attempts.instance, self.offset)
        return np.argsort(first[self.attempts.instance], kind="stable")

    def rows_by_name(self, first: Iterable[str] = ()) -> NDArray[np.intp]:
        """Return all rows, sorted by instance, sample and round.

        The instances named in ``first`` precede the others, which are in the natural order of their
        names.
        """
        names = read_names(self.path)
        digests = self.attempts.instances.digest.tolist()
        positions = {name: position for position, name in enumerate(first)}

        def sort_key(digest: int) -> tuple[object, ...]:
            name = names[digest]
            return positions.get(name, len(positions)), natural_sort_key(name), name

        rank_of = {digest: rank for rank, digest in enumerate(sorted(digests, key=sort_key))}
        ranks = np.array([rank_of[digest] for digest in digests], np.int64)
        return np.argsort(ranks[self.attempts.instance], kind="stable")

    def last_rounds(self, round_: int | None = None) -> NDArray[np.intp]:
        """Return the rows of the samples' last rounds, sorted like `ordered_rows`.

        Rounds after ``round_`` do not count (None: all count).
        """
        order = self.ordered_rows()
        is_last = self.attempts.is_last_round(round_)[order]
        last: NDArray[np.intp] = order[is_last]
        return last

    def read(
        self,
        shape: type[S],
        rows: NDArray[np.intp] | Sequence[int] | None = None,
        *,
        judged: bool = True,
    ) -> Iterator[S]:
        """Yield the lines of attempts, decoded as ``shape``.

        Args:
            shape: A struct with some of an attempt's fields.
            rows: The rows to read, in this order (default: `ordered_rows`).
            judged: Whether to add the judges' scores to the field ``scores``, and to combine rules
                and judges in ``passed``. Without the field ``scores`` in ``shape``, ``passed`` is
                that of the rules. In a conversation's last attempt, ``passed`` is always the
                verdict on all its turns.

        Raises:
            DataInvalid: If a line is damaged.
        """
        selected = self.ordered_rows() if rows is None else np.asarray(rows, np.intp)
        if not len(selected):
            return
        decode = msgspec.json.Decoder(shape).decode
        lines = decode_lines_at(self.path, self.offset[selected].tolist(), decode, ATTEMPT)
        fields = shape.__struct_fields__
        adds_scores = self.judgements is not None and "scores" in fields
        has_turns = self.attempts.turns is not None
        combines_verdicts = "passed" in fields and (adds_scores or has_turns)
        if not judged or not (adds_scores or combines_verdicts):
            yield from lines
            return
        judgements_of = self.read_judgements(selected, msgspec.json.Decoder(_JudgedScores).decode)
        types = {field.name: field.type for field in msgspec.structs.fields(shape)}
        decode_scores = msgspec.json.Decoder(types.get("scores", Any)).decode
        verdicts: dict[int, bool | None] = {NOT_JUDGED: None, 0: False, 1: True}
        for row, line, judgements in zip(selected.tolist(), lines, judgements_of, strict=True):
            changes: dict[str, Any] = {}
            if adds_scores:
                changes["scores"] = dict(getattr(line, "scores"))  # noqa: B009 (the shape has them)
                for judgement in filter(None, judgements):
                    changes["scores"] |= decode_scores(judgement.scores)
            if combines_verdicts:
                changes["passed"] = verdicts[int(self._passed[row])]
            yield msgspec.structs.replace(line, **changes)

    def read_judgements(
        self,
        rows: NDArray[np.intp],
        decode: Callable[[bytes], S],
        judges: Sequence[str] | None = None,
    ) -> Iterator[list[S | None]]:
        """Yield the latest judgement of each row by each judge (None: missing).

        ``decode`` decodes a line of judgements. ``judges`` are the judges' names (None: all).
        """
        path = self.path.with_name(JUDGEMENTS)
        return read_judgements(path, self.judgement_offsets(rows, judges).tolist(), decode)

    def judgement_offsets(
        self, rows: NDArray[np.intp], judges: Sequence[str] | None = None
    ) -> NDArray[np.int64]:
        """Return the (n, k) byte offsets of the latest judgements by k judges (`MISSING`: none)."""
        names = list(self.register.judges) if judges is None else judges
        matches = np.full((len(rows), len(names)), MISSING, np.intp)
        if self.judgements is None:
            return matches
        is_judged = self.judgements.is_judged(self.attempts, rows)
        for column, name in enumerate(names):
            matches[is_judged, column] = self.judgements.match_rows(
                name, self._keys[rows[is_judged]]
            )
        return self.judgements.offsets(matches)

    def count_redraws(self) -> dict[str, Redraws]:
        """Return how often each judge has repeated judgements that had no verdict."""
        if self.judgements is None:
            return {}
        return self.judgements.count_redraws(self.attempts, self._keys)

    def missing_judgements(
        self, judges: Sequence[str], retried: Collection[JudgementOutcome]
    ) -> dict[int, Mapping[str, int]]:
        """Return the judges that have yet to judge each row, as `JudgementIndex.missing_judges`."""
        if self.judgements is None:
            return {}
        return self.judgements.missing_judges(self.attempts, self._keys, judges, retried)


class _FinishReasonLine(msgspec.Struct, gc=False):
    finish_reason: str | None = None


class _JudgedScores(msgspec.Struct, gc=False):
    scores: msgspec.Raw = msgspec.Raw(b"{}")


def read_attempts(path: Path) -> AttemptTable:
    """Read the attempts of a file as columns, with the scores of the run's judges."""
    return AttemptIndex(path).attempts


def read_names(path: Path) -> dict[int, str]:
    """Return the names of a run's instances, by their digests (`name_digest`)."""
    lines = decode_lines(path, LineKey, ATTEMPT)
    return {name_digest(line.instance): line.instance for _, _, line in lines}


def read_instance(path: Path, instance: str) -> list[Attempt]:
    """Return an instance's attempts, sorted by sample and round.

    Those with an outcome that judges score are `JudgedAttempt`s.
    """
    index = AttemptIndex(path)
    rows = np.array(index.find_rows(instance), np.intp)
    judgements_of = index.read_judgements(rows, msgspec.json.Decoder(Judgement).decode)
    attempts: list[Attempt] = []
    for attempt, judgements in zip(index.read(Attempt, rows), judgements_of, strict=True):
        if attempt.outcome in index.register.judged:
            fields = msgspec.structs.asdict(attempt)
            attempt = JudgedAttempt(**fields, judgements=tuple(filter(None, judgements)))
        attempts.append(attempt)
    return attempts


def count_run_redraws(folder: RunFolder) -> dict[str, dict[str, int]]:
    """Return how often each judge of a run has repeated judgements, for the run's manifest."""
    redraws = AttemptIndex(folder.attempts).count_redraws()
    return {name: msgspec.structs.asdict(count) for name, count in redraws.items()}


def is_scored(folder: RunFolder, fingerprint: Mapping[str, str]) -> bool:
    """Return whether `harness score` has scored all attempts of a run with this fingerprint."""
    header = next((text for _, text in read_lines(folder.path / SCORES)), b"{}")
    recorded = msgspec.json.decode(header, type=dict[str, Any]).get("header", {})
    scored = recorded.get("fingerprint"), recorded.get("attempts_bytes")
    return scored == (dict(fingerprint), AttemptIndex(folder.attempts, judges=False).size)


def lacks_judgements(folder: RunFolder) -> bool:
    """Return whether a run still lacks judgements after it has lost some.

    It does if a judgement is missing or has failed. It also does if a judgement has no verdict, and
    its judge has repeated fewer judgements than the manifest records.
    """
    index = AttemptIndex(folder.attempts)
    if index.missing_judgements(list(index.register.judges), FAILED_OUTCOMES):
        return True
    present = index.count_redraws()
    for name, recorded in recorded_redraws(folder.read_manifest()).items():
        if name not in present or present[name].total >= recorded.total:
            continue
        undecided = index.missing_judgements([name], REDRAWN_OUTCOMES)
        # An attempt may have no verdict even after a paid repetition.
        if any(answers[name] <= recorded.most for answers in undecided.values()):
            return True
    return False


def recorded_redraws(manifest: Mapping[str, Any]) -> dict[str, Redraws]:
    """Return how often each judge has repeated judgements, according to a manifest."""
    return msgspec.convert(manifest.get(REDRAWS_KEY) or {}, dict[str, Redraws])


_FINAL_OUTCOMES = list(map(OUTCOMES.index, ("refused", "empty", "crashed")))  # of conversations


def combine_turns(table: AttemptTable, turns: Ints, neutral: Bools) -> AttemptTable:
    """Combine the verdicts on a conversation's turns to one verdict, in the row of the last turn.

    A finished conversation fails if an answer has failed, and passes otherwise. A refused or empty
    answer ends a conversation, and so does a crash. There is no verdict if a conversation is
    unfinished, if an answer could not be judged, or if no answer is judged. The scores are those of
    the last turn, if it was reached. The original verdicts and scores are in the result's
    ``turns``.

    Args:
        table: The attempts, with each turn's own verdict and scores.
        turns: (n,) numbers of the user's turns in the attempts' conversations (0: not scripted).
        neutral: (n,) mask of the attempts that all rules and judges have judged without a verdict.
    """
    if not turns.any():
        return table
    is_start = table.sample_starts()
    starts = np.flatnonzero(is_start)
    sample = np.cumsum(is_start) - 1

    def any_turn(condition: Bools) -> Bools:
        return np.asarray(np.logical_or.reduceat(condition, starts)[sample])

    failed = any_turn(table.passed == 0)
    passed = any_turn(table.passed == 1)
    unknown = any_turn((table.passed == NOT_JUDGED) & ~neutral)
    is_scripted = turns > 0
    is_last = table.is_last_round()
    is_complete = table.round >= turns
    has_ended = is_last & (is_complete | np.isin(table.outcome, _FINAL_OUTCOMES)) & ~unknown
    verdicts = np.where(has_ended & (failed | passed), ~failed, NOT_JUDGED)
    has_scores = ~is_scripted | (is_last & is_complete)
    scores: dict[str, Values] = {}
    for name, values in table.scores.items():
        missing = NOT_JUDGED if values.dtype == np.int8 else np.nan
        scores[name] = np.where(has_scores, values, values.dtype.type(missing))
    passed_by_row = np.where(is_scripted, verdicts, table.passed).astype(np.int8)
    return replace(table, passed=passed_by_row, scores=scores, turns=table)
