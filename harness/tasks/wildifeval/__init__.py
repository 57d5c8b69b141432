"""WildIFEval: constraints that real users set, judged one by one.

Lior et al. 2025, "WildIFEval: Instruction Following in the Wild" (arXiv 2503.06573): first
messages of real conversations, each with its constraints. Judges decide whether an answer meets
them, one question per constraint (the judge ``yes_no``). Constraints that a rule can decide
(`harness.scoring.rules`) are checked by it as well. Without a judge, no answer fails unless
``rules: decide`` is set.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import msgspec

from harness.datasets.folder import DataFolder, sha256
from harness.errors import ConfigError, DataInvalid
from harness.ports import PaperTable, TableFigure
from harness.records import Criterion, Instance, Message, Score
from harness.scoring.rules import recognise, rules_version
from harness.tasks.wildifeval.data import (
    BUILTIN,
    LABEL,
    Constraint,
    Joined,
    WildIFEvalItem,
    is_public,
    join,
    read_items,
)

FOLDER = "wildifeval"
PAPER_EXAMPLES = f"{FOLDER}/paper_examples.jsonl"
PUBLIC = f"{FOLDER}/wild-if-eval"
CHATS = f"{FOLDER}/lmsys-chat-1m"
CATEGORIES = f"{FOLDER}/constraint_categories.csv"
DOMAINS = f"{FOLDER}/domains.csv"
"""Places of the public files below the data folder."""

RULES = "rules"
"""The score over the constraints that a rule decides, and its key in the fingerprint."""

NAMED = 5
"""How many missing conversations a message names; the fingerprint has a hash of all."""


class WildIFEvalTask:
    """Constraints of real users, judged one by one (Lior et al. 2025).

    Args:
        dataset: ``builtin`` (ours), ``paper_examples`` (20 of the paper), ``public`` (joined to
            your own copy of LMSYS-Chat-1M), or a path: JSONL, or files in the published format.
        chats: Your copy of the chats, a file or a folder; default: its place in the data folder.
        categories: For the published format, a CSV file of constraints and their categories.
        domains: For the published format, a CSV file of tasks and their domains.
        missing_chats: If your copy lacks conversations, ``refuse`` to run, or ``leave_out`` their
            tasks and count them in the manifest.
        rules: What to do with constraints that a rule can decide: nothing (``off``), a score
            ``beside`` the verdict, or a score that is part of the verdict (``decide``).
    """

    on_truncated: Literal["fail", "grade"] = "grade"  # the paper judges what fits in 1,000 tokens
    table = PaperTable(
        rows="",
        columns="n_constraints",
        figures=(
            TableFigure("strict"),  # the pass rate, in which a refused or empty answer has failed
            TableFigure("soft", of="score", score="yes_no.soft"),
        ),
        source="Lior et al. 2025 (arXiv 2503.06573), figures 5, 6 and 10",
    )

    def __init__(
        self,
        dataset: str = "builtin",
        chats: str | None = None,
        categories: str | None = None,
        domains: str | None = None,
        missing_chats: Literal["refuse", "leave_out"] = "refuse",
        rules: Literal["off", "beside", "decide"] = "beside",
        *,
        data: DataFolder,
    ) -> None:
        self.dataset = dataset
        self._missing_chats = missing_chats
        self._rules = rules
        names = {"builtin": str(BUILTIN), "paper_examples": PAPER_EXAMPLES, "public": PUBLIC}
        published = f"Put it below {data.root / FOLDER}: docs/wildifeval.md names its source."
        self.path = data.place(
            names.get(dataset, dataset),
            remedy=published if dataset in ("paper_examples", "public") else "",
        )
        self._chats: Path | None = None
        self._categories = self._domains = None
        if is_public(self.path):
            self._chats = data.place(
                chats or CHATS,
                remedy="It holds the texts of the data set: request LMSYS-Chat-1M at its source "
                "and name your copy with task.chats (docs/wildifeval.md).",
            )
            self._categories = _optional(categories, CATEGORIES, data)
            self._domains = _optional(domains, DOMAINS, data)
            return
        for name, given in {"chats": chats, "categories": categories, "domains": domains}.items():
            if given is not None:
                raise ConfigError(
                    f"task.{name} is for data in the published format; {self.path.name} already "
                    "has the tasks' texts.",
                    "Remove it.",
                )

    def instances(self) -> Iterator[Instance[WildIFEvalItem]]:
        """Yield the tasks in file order; missing conversations are an error."""
        for item in self._joined.items if self._chats else read_items(self.path):
            groups = {"n_constraints": str(len(item.constraints))}
            if item.domain:
                groups["domain"] = item.domain
            yield Instance(id=item.id, data=item, groups=groups)

    def fingerprint(self) -> Mapping[str, str]:
        """Return the data's hash and the version of the rules.

        For joined data, the hash is of the joined tasks, and missing conversations are counted.
        """
        rules = {} if self._rules == "off" else {RULES: rules_version()}
        if self._chats is None:
            return {"dataset": self.dataset, "dataset_sha256": sha256(self.path), **rules}
        missing = self._joined.missing
        digest = hashlib.sha256(msgspec.json.encode(self._joined.items)).hexdigest()
        found = {"dataset": self.dataset, "dataset_sha256": digest, **rules}
        if missing:
            found["missing_chats"] = _counted(missing)
            found["missing_chats_sha256"] = hashlib.sha256(
                "\n".join(sorted(missing)).encode()
            ).hexdigest()
        return found

    def messages(
        self, instance: Instance[WildIFEvalItem], shots: Sequence[Instance[WildIFEvalItem]]
    ) -> tuple[Message, ...]:
        """Return the user's message as written: the paper's models are prompted zero-shot."""
        if shots:
            raise ConfigError(
                "The task 'wildifeval' has no reference answers to show.", "Remove task.shots."
            )
        return (Message("user", instance.data.task),)

    def score(self, instance: Instance[WildIFEvalItem], text: str) -> Mapping[str, Score]:
        """Score ``rules``: of the constraints that a rule decides, the share that is met.

        Empty if there are none: the verdict is then the judges' alone.
        """
        if self._rules == "off":
            return {}
        checked = [found for one in instance.data.constraints if (found := _checked(one, text))]
        if not checked:
            return {}
        missed = [one for one in checked if not one["passed"]]
        reason = "; ".join(f"{one['constraint']} ({one['reason']})" for one in missed)
        return {
            RULES: Score(
                1 - len(missed) / len(checked),
                None if self._rules == "beside" else not missed,
                f"Not satisfied: {reason}" if missed else "",
                {"constraints": checked},
            )
        }

    def feedback(
        self, instance: Instance[WildIFEvalItem], text: str, scores: Mapping[str, Score]
    ) -> str:
        """Say that something is not met; judges and deciding rules add what."""
        said = "Your answer does not meet all that was asked for yet. Please answer again."
        found = scores.get(RULES)
        return f"{found.reason}\n{said}" if found and found.passed is False else said

    def reference(self, instance: Instance[WildIFEvalItem]) -> str | None:
        """Return None: the data set has no reference answers."""
        return None

    def instruction(self, instance: Instance[WildIFEvalItem]) -> str:
        """Return the user's instruction, for a judge."""
        return instance.data.task

    def criteria(self, instance: Instance[WildIFEvalItem]) -> Sequence[Criterion]:
        """Return the constraints, with their categories as groups."""
        return [
            Criterion(one.text, {LABEL: one.category} if one.category else {})
            for one in instance.data.constraints
        ]

    @cached_property
    def _joined(self) -> Joined:
        assert self._chats is not None
        found = join(self.path, self._chats, self._categories, self._domains)
        missing = found.missing
        if missing and self._missing_chats == "refuse":
            raise DataInvalid(
                f"{self._chats} lacks {_counted(missing)} of "
                f"{len(missing) + len(found.items):,} conversations.",
                "Complete the copy, or set task.missing_chats to leave_out: they are then counted "
                "in the manifest.",
            )
        if not found.items:
            raise DataInvalid(f"{self._chats} has none of the conversations of {self.path}.")
        return found


def _checked(constraint: Constraint, text: str) -> dict[str, Any] | None:
    """Check a constraint by a rule, if one applies, as `harness.analysis.constraints` reads it."""
    rule = recognise(constraint.text)
    if rule is None:
        return None
    reason = rule.check(text)
    category = constraint.category
    return {
        "constraint": constraint.text,
        **({"kind": category} if category else {}),
        "passed": not reason,
        "reason": reason,
        "groups": {**({LABEL: category} if category else {}), "rule": rule.name},
    }


def _counted(missing: Sequence[str]) -> str:
    """Format the number of ids, with the first of them."""
    more = ", …" if len(missing) > NAMED else ""
    return f"{len(missing):,} ({', '.join(missing[:NAMED])}{more})"


def _optional(name: str | None, usual: str, data: DataFolder) -> Path | None:
    """Return the named file, else the usual one in the data folder if it exists."""
    if name is not None:
        return data.file(name)
    path = data.root / usual
    return path if path.is_file() else None


plugin = WildIFEvalTask
