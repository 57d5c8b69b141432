"""The verifiable instructions of IFEval as checkers.

The checker ``ifeval:length_constraints/number_words`` is the instruction
``length_constraints:number_words``; its options are the instruction's arguments.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

from harness.errors import ConfigError, DataInvalid
from harness.records import Instance, Score
from harness.scoring.instructions import IFEVAL, Verdicts, check_of, instruction, judge
from harness.scoring.patterns import PatternTooSlow


class InstructionChecker:
    """Passes a text that follows a verifiable instruction.

    Args:
        name: The instruction's id, such as ``keywords:existence``.
        arguments: The instruction's arguments by name.
        verdicts: ``official``, or ``corrected`` where the official check misreads some texts.
        loose: Also pass a text that follows the instruction without its first or last line, or
            without asterisks.
    """

    def __init__(
        self,
        name: str,
        arguments: Mapping[str, Any],
        verdicts: Verdicts = "official",
        loose: bool = False,
    ) -> None:
        try:
            self._instruction = instruction(name, arguments, verdicts)
        except DataInvalid as error:
            raise ConfigError(error.message, error.remedy) from None
        self._loose = loose

    def check(self, text: str, instance: Instance[Any]) -> Score:
        """Return a score of True or False; if False, its reason says what the text lacks.

        The score has no value if a keyword is a pattern that takes too long.
        """
        try:
            [found] = judge([self._instruction], text)
        except PatternTooSlow as error:
            return Score(None, None, error.message)
        passed = found.loose if self._loose else found.strict
        return Score(passed, passed, "" if passed else found.reason)


def instruction_plugin(name: str) -> Callable[..., InstructionChecker]:
    """Return a factory whose signature has the instruction's arguments as options."""
    check = check_of(name)
    hints = get_type_hints(check)
    keyword = inspect.Parameter.POSITIONAL_OR_KEYWORD
    own = [
        parameter.replace(annotation=hints[key], kind=keyword)
        for key, parameter in list(inspect.signature(check).parameters.items())[1:]
    ]
    own += [
        inspect.Parameter("verdicts", keyword, default="official", annotation=Verdicts),
        inspect.Parameter("loose", keyword, default=False, annotation=bool),
    ]

    def build(verdicts: Verdicts, loose: bool, **arguments: Any) -> InstructionChecker:
        return InstructionChecker(name, arguments, verdicts, loose)

    build.__doc__ = check.__doc__
    build.__signature__ = inspect.Signature(own)  # type: ignore[attr-defined]
    return build


PLUGINS: Mapping[str, Callable[..., InstructionChecker]] = {
    name.replace(":", "/"): instruction_plugin(name)
    for module in IFEVAL
    for name in module.OFFICIAL
}
