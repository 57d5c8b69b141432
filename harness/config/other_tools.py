"""Suggestions in error messages for names that other evaluation tools use.

The tools are lm-evaluation-harness, Inspect and promptfoo (docs/coming_from.md).
"""

import re
from functools import cache
from pathlib import Path

import msgspec

_PROMPTFOO = "It is a promptfoo configuration: 'harness docs coming_from' has its keys and ours."
_LM_EVAL = (
    "It is a task of lm-evaluation-harness: harness eval lm_eval:FILE --model MODEL "
    "(harness docs lm_eval)."
)
FILES = {"prompts": _PROMPTFOO, "providers": _PROMPTFOO}
FILES |= {"dataset_path": _LM_EVAL, "doc_to_text": _LM_EVAL}
"""Keys of other tools' configuration files, and what to do with such a file."""


@cache
def tables() -> dict[str, dict[str, str]]:
    """Return the tables of other_tools.yaml, which map names or patterns to remedies or names."""
    content = Path(__file__).with_suffix(".yaml").read_bytes()
    return msgspec.yaml.decode(content, type=dict[str, dict[str, str]])


def option_remedy(option: str) -> str:
    """Return the remedy for an unknown option, or "" if no other tool has such an option."""
    known = tables()["options"]
    return known.get(option) or known.get(re.sub(r"(?<=\w)-", "_", option), "")


def remedy(name: str, table: str) -> str:
    """Return the remedy of the first pattern in a table that matches a name, or "" if none does."""
    known = tables().get(table, {}).items()
    return next((said for pattern, said in known if re.fullmatch(pattern, name.lower())), "")


def model_name(name: str) -> str:
    """Translate another tool's name for a model to one for ``--model``, or return "" if unknown.

    >>> model_name("gpt-4o-mini"), model_name("meta-llama/Llama-3.1-8B")
    ('openai/gpt-4o-mini', 'vllm_server/meta-llama/Llama-3.1-8B')
    """
    for known, here in tables()["models"].items():
        if found := re.fullmatch(known, name):
            return found.expand(here)
    return ""
