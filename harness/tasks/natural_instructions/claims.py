"""What the paper says that an ablation over encodings can show to hold or not.

Only what the abstracts say, in their words: Mishra et al. 2022, "Cross-Task
Generalization via Natural Language Crowdsourcing Instructions" (ACL), and its
first version of 2021 (arXiv 2104.08773v1).

>>> list(named_fields("_Prompt_Positive Examples Full Only"))
['Prompt', 'Positive Examples']
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.ports import Claim
from harness.tasks.natural_instructions.encodings import (
    NEGATIVE_EXPLAINED,
    POSITIVE,
    POSITIVE_EXPLAINED,
    fields_of,
    label,
)

ACL = "Mishra et al. 2022, abstract (ACL)"
V1 = "Mishra et al. 2021, abstract (arXiv 2104.08773v1)"

CLAIMS = (
    Claim(
        "models benefit from instructions",
        ACL,
        "more",
        more=label(["Definition", "Prompt"]),
        less=label(["Prompt"]),
    ),
    Claim(
        "models benefit from instructions",
        ACL,
        "more",
        more=label(["Prompt", POSITIVE]),
        less=label([POSITIVE]),
    ),
    Claim(
        "the extent of their gains varies across different fields of instructions",
        V1,
        "rows_differ",
    ),
    Claim("and also depends on the task being solved", V1, "groups_differ"),
)

SHORT = {
    POSITIVE: "Positive Examples",
    POSITIVE_EXPLAINED: "Positive Examples",
    NEGATIVE_EXPLAINED: "Negative Examples",
}
"""Examples of right answers are one field, explained or not: where the authors add wrong answers to
right ones, they explain both."""


def named_fields(encoding: str) -> Mapping[str, str]:
    """The fields of an encoding by their short names, each with the authors' full one."""
    fields = () if encoding == "instance_only" else fields_of(encoding)
    return {SHORT.get(field, field): field for field in fields}
