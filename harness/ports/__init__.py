"""What a plug-in has to offer, and what it may offer: one Protocol per capability.

A plug-in inherits nothing. Each kind has one required Protocol and any number of optional ones,
listed in `CAPABILITIES`. `harness.plugins` checks every plug-in against that list when it is
loaded: a missing member, half of a capability, or a name that is nearly a capability's is an
error, because a misspelt method would otherwise be ignored and the reported score would be wrong.
The harness asks for a capability by type, as in ``isinstance(task, Measured)``.

The constructor's positional parameters are the options that a run file may set. Its keyword-only
parameters are supplied by the harness (`harness.plugins.SUPPLIED` lists them).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.ports.backends import (
    CONSTRAINTS,
    LOGPROBS,
    OWN_DRAWS,
    PARAMETERS,
    PROMPT_LOGPROBS,
    Backend,
    Fingerprinted,
    PreferredConcurrency,
    Resumable,
    Startable,
)
from harness.ports.judges import (
    Advising,
    AnswersOf,
    ByCriteria,
    HasWarnings,
    Judge,
    OtherAnswers,
    Simulatable,
    decides_by_criteria,
)
from harness.ports.scorers import (
    Checker,
    Filter,
    Loader,
    Measure,
    Metric,
    PostProcessor,
)
from harness.ports.tasks import (
    Claim,
    Claiming,
    Constraining,
    Effect,
    Fallible,
    Judged,
    JudgeRouting,
    LeakAware,
    Measured,
    PaperTable,
    Paraphrasable,
    Parsed,
    Pictured,
    PromptChecked,
    ScoresNoAnswer,
    Tabled,
    TableFigure,
    Task,
)

__all__ = [
    "CAPABILITIES",
    "CONSTRAINTS",
    "LOGPROBS",
    "OWN_DRAWS",
    "PARAMETERS",
    "PROMPT_LOGPROBS",
    "Advising",
    "AnswersOf",
    "Backend",
    "ByCriteria",
    "Checker",
    "Claim",
    "Claiming",
    "Constraining",
    "Effect",
    "Fallible",
    "Filter",
    "Fingerprinted",
    "HasWarnings",
    "Judge",
    "JudgeRouting",
    "Judged",
    "LeakAware",
    "Loader",
    "Measure",
    "Measured",
    "Metric",
    "OtherAnswers",
    "PaperTable",
    "Paraphrasable",
    "Parsed",
    "Pictured",
    "PostProcessor",
    "PreferredConcurrency",
    "PromptChecked",
    "Resumable",
    "ScoresNoAnswer",
    "Simulatable",
    "Startable",
    "TableFigure",
    "Tabled",
    "Task",
    "decides_by_criteria",
]

CAPABILITIES: Mapping[str, tuple[Any, ...]] = {
    "tasks": (
        Task,
        ScoresNoAnswer,
        Measured,
        Paraphrasable,
        LeakAware,
        Fallible,
        Constraining,
        Parsed,
        Judged,
        JudgeRouting,
        PromptChecked,
        Claiming,
        Pictured,
        Tabled,
    ),
    "backends": (Backend, Startable, PreferredConcurrency, Resumable, Fingerprinted),
    "judges": (Judge, HasWarnings, Advising, ByCriteria, Simulatable, Fingerprinted),
    "checkers": (Checker,),
    "metrics": (Metric,),
    "measures": (Measure,),
    "loaders": (Loader,),
    "filters": (Filter,),
    "post_processors": (PostProcessor,),
}
"""Kind of plug-in -> its required Protocol, then the optional ones."""
