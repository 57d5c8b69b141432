"""Validators of structured answers: read a document, then hold it against a JSON Schema.

`read` makes a value of JSON, YAML or XML (or raises `Unreadable`), `validator` compiles a schema,
its `violations` say all that is wrong, `score_document` does all three, and `render` writes a
value as a text; `place` says where in a text the value at a path stands. Hostile documents and
schemas end in a bounded time and memory; nothing here touches a file or the network.
"""

from harness.scoring.validators.documents import FORMATS, Format, Mode, read, render
from harness.scoring.validators.drafts import DRAFTS, Draft
from harness.scoring.validators.places import place, third
from harness.scoring.validators.root_type import root_type_violated
from harness.scoring.validators.schemas import Undecided
from harness.scoring.validators.scores import score, score_document
from harness.scoring.validators.unreadable import Unreadable
from harness.scoring.validators.validator import Validator, validator
from harness.scoring.validators.violations import Violation

__all__ = [
    "DRAFTS",
    "FORMATS",
    "Draft",
    "Format",
    "Mode",
    "Undecided",
    "Unreadable",
    "Validator",
    "Violation",
    "place",
    "read",
    "render",
    "root_type_violated",
    "score",
    "score_document",
    "third",
    "validator",
]
