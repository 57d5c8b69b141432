"""``- judge: NAME`` among a row's checks: who judges its answers, and on what.

    checks:
      - judge: polite                                    # a judge of the run file, by its name
        criteria: [It is polite., {field: must}]         # texts, and fields: a text or a list

A row is put before the judges that its checks name, and before those that no check names at all.
A panel's name stands for all of its judges. A judge decides on the criteria of its check, else on
the row's field ``criteria``; one that no check names, on all that the row asks of judges.

>>> own = [Check("polite", "judge", "text", {})]
>>> row = {"criteria": "It is polite."}
>>> checks = JudgeChecks(own, {"polite": True})
>>> checks.criteria(row, checks.of(own, row), "polite")
('It is polite.',)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from msgspec import Struct

from harness.errors import ConfigError, DataInvalid, nearest
from harness.tasks.jsonl.written_checks import JUDGE, OF_JUDGES, Check, field_of

CRITERIA = "criteria"
"""A row's field that judges decide on, and the option of a check that does."""


class JudgeCheck(Struct, frozen=True):
    """That a row is put before a judge.

    criteria: the check's own; none where it has none.
    """

    judge: str
    criteria: tuple[str, ...] = ()


class JudgeChecks:
    """What the checks of a task ask of the judges of its run.

    own: the run file's checks.
    judges: those of the run by their names, each with whether it decides on criteria; None
        where nobody knows them.
    rows: reads all of the task, where it matters what others name.
    panels: of the run, each with its judges.

    Raises: ConfigError for a check of the run file that cannot be done.
    """

    def __init__(
        self,
        own: Sequence[Check],
        judges: Mapping[str, bool] | None,
        rows: Callable[[], Iterable[Mapping[str, Any]]] = tuple,
        panels: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self._own, self._judges, self._rows = own, judges, rows
        self._panels = panels or {}
        for check in own:
            if check.checker == JUDGE:
                try:
                    self._refuse(check)
                except DataInvalid as error:
                    raise ConfigError(f"task.checks: {error.message}", error.remedy) from None

    def of(self, checks: Sequence[Check], row: Mapping[str, Any]) -> tuple[JudgeCheck, ...]:
        """Those of a row's checks that judges do.

        Raises: DataInvalid for a judge that the run does not have, one that does not decide on
            criteria and is given some, and one that has none to decide on.
        """
        found = []
        for check in checks:
            if check.checker == JUDGE:
                self._refuse(check)
                criteria = _criteria(check, row)
                found += [JudgeCheck(judge, criteria) for judge in self._meant(check.name)]
        for judge, by_criteria in (self._judges or {}).items():
            if by_criteria and self.calls(found, judge) and not self.criteria(row, found, judge):
                raise DataInvalid(
                    f"the judge {judge!r} has no criteria to decide on.",
                    "Write criteria below '- judge: …' among the checks, or 'criteria' into the "
                    "row.",
                )
        return tuple(found)

    def calls(self, found: Sequence[JudgeCheck], judge: str) -> bool:
        """Whether a row with these checks is put before a judge of the run."""
        return any(one.judge == judge for one in found) or judge not in self._named

    def criteria(
        self, row: Mapping[str, Any], found: Sequence[JudgeCheck], judge: str | None
    ) -> tuple[str, ...]:
        """What a judge decides on of a row with these checks; None for all that is asked of any.

        Raises: DataInvalid where the row's field holds none.
        """
        for one in found:
            if one.judge == judge and one.criteria:
                return one.criteria
        of_row = _texts(row[CRITERIA], f"the field {CRITERIA!r}") if CRITERIA in row else []
        if any(one.judge == judge for one in found):
            return _different(of_row)
        return _different([*(text for one in found for text in one.criteria), *of_row])

    def _meant(self, name: str) -> Sequence[str]:
        """The judges that a name stands for: a panel's members, or the one of that name."""
        return self._panels.get(name, (name,))

    @cached_property
    def _named(self) -> frozenset[str]:
        """The judges that any check names: of the run file, or of a row."""
        written = [check.name for check in self._own if check.checker == JUDGE]
        named = {judge for name in written for judge in self._meant(name)}
        if self._judges is None or self._judges.keys() - named:
            for row in self._rows():
                raw = row.get("checks")
                for entry in raw if isinstance(raw, list) else ():
                    judge = entry.get(JUDGE) if isinstance(entry, Mapping) else None
                    if isinstance(judge, str):
                        named.update(self._meant(judge))
        return frozenset(named)

    def _refuse(self, check: Check) -> None:
        for option in check.options:
            if option not in OF_JUDGES[1:]:
                raise DataInvalid(
                    f"the check {check.name!r} by a judge has no option {option!r:.60}.",
                    nearest(option, OF_JUDGES[1:]),
                )
        if self._judges is None:
            return
        meant = self._meant(check.name)
        if not self._judges.keys() >= set(meant):
            known = [*self._judges, *self._panels]
            remedy = nearest(check.name, known) if known else ""
            raise DataInvalid(
                f"a check names the judge {check.name!r:.60}, which the run file does not have.",
                remedy or "Add it to judges: (docs/judges.md).",
            )
        without = [judge for judge in meant if not self._judges[judge]]
        if CRITERIA in check.options and without:
            raise DataInvalid(
                f"the judge {without[0]!r} does not decide on criteria, and a check gives it some.",
                "Leave them out, or take a judge that does, such as yes_no.",
            )


def _criteria(check: Check, row: Mapping[str, Any]) -> tuple[str, ...]:
    """The check's own criteria, with those that the row holds in their places."""
    if CRITERIA not in check.options:
        return ()
    written = check.options[CRITERIA]
    found: list[str] = []
    for one in written if isinstance(written, list) else [written]:
        field = field_of(one)
        if field is None:
            found += _texts(one, f"criteria of the check {check.name!r}")
            continue
        if field not in row:
            raise DataInvalid(
                f"the check {check.name!r} needs the field {field!r:.60}, which is not there.",
                nearest(field, map(str, row)),
            )
        found += _texts(row[field], f"the field {field!r:.60}, of the check {check.name!r},")
    if not found:
        raise DataInvalid(f"criteria of the check {check.name!r} must hold one.")
    return _different(found)


def _texts(value: object, what: str) -> list[str]:
    """A text, or a list of texts."""
    found = value if isinstance(value, list) else [value]
    if not found or not all(isinstance(one, str) and one.strip() for one in found):
        raise DataInvalid(f"{what} must be a text or a list of texts, none of them empty.")
    return list(found)


def _different(texts: Sequence[str]) -> tuple[str, ...]:
    """Each once: to ask the same again is to pay again."""
    return tuple(dict.fromkeys(texts))
