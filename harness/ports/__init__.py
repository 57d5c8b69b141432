"""The shapes of plug-ins: what a backend, a task, a checker, a judge and others must offer.

Protocols, not base classes: a plug-in inherits nothing. A plug-in module ends
with ``plugin = TheClass``; the constructor's parameters are the options that a
run file may set, its keyword-only ones are handed over by the harness where
they are asked for: ``data`` (the data folder) and ``judges`` (those of the run by their
names, each with whether it decides on criteria) to tasks; ``secret``, ``read``,
``gold``, ``concurrency``, ``timeout_s``, ``model`` (its name) and
``on_allowances`` (to be told what the headers say of rate limits), ``servers`` (the processes
that this one owns) and ``logs`` (the folder for their output) to backends;
``task``, ``model`` (the judging one's name), its backend's ``features`` and ``answers`` (those of
another run, see `AnswersOf`) to judges; ``data`` to loaders, ``units`` (the splitter of texts) to
filters (see `harness.plugins`).
"""

from harness.ports.backends import (
    CONSTRAINTS,
    LOGPROBS,
    OWN_DRAWS,
    PARAMETERS,
    PROMPT_LOGPROBS,
    Backend,
    Deep,
    Startable,
)
from harness.ports.corpora import Filter, Loader, PostProcessor
from harness.ports.judges import (
    Advising,
    AnswersOf,
    ByCriteria,
    Foretelling,
    Judge,
    OtherAnswers,
    Simulatable,
)
from harness.ports.papers import Claim, Claiming, Effect, PaperTable, Pictured, Tabled, TableFigure
from harness.ports.scorers import Checker, Measure, Metric
from harness.ports.tasks import (
    Calling,
    Constraining,
    Erring,
    Guarded,
    Judged,
    Measured,
    Parsed,
    Polishable,
    Task,
)

__all__ = [
    "CONSTRAINTS",
    "LOGPROBS",
    "OWN_DRAWS",
    "PARAMETERS",
    "PROMPT_LOGPROBS",
    "Advising",
    "AnswersOf",
    "Backend",
    "ByCriteria",
    "Calling",
    "Checker",
    "Claim",
    "Claiming",
    "Constraining",
    "Deep",
    "Effect",
    "Erring",
    "Filter",
    "Foretelling",
    "Guarded",
    "Judge",
    "Judged",
    "Loader",
    "Measure",
    "Measured",
    "Metric",
    "OtherAnswers",
    "PaperTable",
    "Parsed",
    "Pictured",
    "Polishable",
    "PostProcessor",
    "Simulatable",
    "Startable",
    "TableFigure",
    "Tabled",
    "Task",
]
