"""Checkers for the verifiable instructions of IFEval.

The checker ``ifeval:length_constraints/number_words`` applies the instruction
``length_constraints:number_words``. Its options are the instruction's arguments.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from harness.errors import ConfigError, raised_as
from harness.plugins.benchmarks.ifeval.instructions import (
    TABLE,
    Verdicts,
    instruction,
    judge,
    parameters,
)
from harness.plugins.benchmarks.ifeval.instructions.table import Check
from harness.records import WARNING, Instance, Score
from harness.scoring.patterns import PatternTooSlow
from harness.scoring.text import MayCountWords, Uncountable


class InstructionChecker(MayCountWords):
    """Passes text that follows a verifiable instruction, given by its id and arguments.

    ``verdicts`` is ``official`` to agree with the published code, or ``corrected`` to fix its known
    misreadings. With ``loose``, it is enough that the text passes without its first line, last line
    or asterisks.
    """

    def __init__(
        self, name: str, arguments: Mapping[str, Any], verdicts: Verdicts, loose: bool
    ) -> None:
        with raised_as(ConfigError):
            self._instruction = instruction(name, arguments, verdicts)
        self._loose = loose

    @property
    def counts_words(self) -> bool:
        """Whether the check divides text of any script into words."""
        return self._instruction.counts_words

    def check(self, text: str, instance: Instance[Any]) -> Score:
        """Return a score of True or False. If False, its reason says what is wrong.

        The score has no value if searching for a pattern takes too long, or if a corrected check
        cannot divide the text into words or sentences. An official verdict on such a text has a
        ``warning`` in its details.
        """
        try:
            [found] = judge([self._instruction], text)
        except PatternTooSlow as error:
            return Score(None, None, error.message)
        except Uncountable as error:
            return error.score()
        passed = found.loose if self._loose else found.strict
        warning = self._instruction.warning(text)
        details = {WARNING: warning} if warning else {}
        return Score(passed, passed, "" if passed else found.reason, details)


OPTIONS = """

verdicts: Agree with the published code, or correct its known misreadings.
loose: Also accept a text that passes without its first line, last line or asterisks.
"""


def instruction_plugin(name: str, check: Check) -> Callable[..., InstructionChecker]:
    """Return a function that builds the checker of the instruction ``name``.

    Its parameters are the instruction's arguments, ``verdicts`` and ``loose``. Its docstring is
    that of the instruction's check, followed by `OPTIONS`.
    """
    keyword = inspect.Parameter.POSITIONAL_OR_KEYWORD
    own = [
        *parameters(check),
        inspect.Parameter("verdicts", keyword, default="official", annotation=Verdicts),
        inspect.Parameter("loose", keyword, default=False, annotation=bool),
    ]

    def build(verdicts: Verdicts, loose: bool, **arguments: Any) -> InstructionChecker:
        return InstructionChecker(name, arguments, verdicts, loose)

    build.__doc__ = (inspect.getdoc(check) or "") + OPTIONS
    build.__signature__ = inspect.Signature(own)  # type: ignore[attr-defined]
    return build


PLUGINS: Mapping[str, Callable[..., InstructionChecker]] = {
    name.replace(":", "/"): instruction_plugin(name, check) for name, check in TABLE.checks.items()
}
