"""What holds an answer to a form, in the words of the servers that speak OpenAI's protocol.

A server that does not know a field of a request may pass over it, and answer freely: a
preset names only what its server's reference promises.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from harness.records import ConstraintKind, DecodingConstraint

Dialect = Literal["response_format", "response_format_grammar", "structured_outputs", "grammar"]
"""Which field of the body has it."""

Dialects = Mapping[ConstraintKind, Dialect]

SCHEMA: Dialects = {"json_schema": "response_format"}
"""OpenAI's structured outputs, which most others have taken over."""

VLLM: Dialects = dict.fromkeys(("json_schema", "regex", "choices", "grammar"), "structured_outputs")

_VLLM_NAMES: Mapping[ConstraintKind, str] = {
    "json_schema": "json",
    "regex": "regex",
    "choices": "choice",
    "grammar": "grammar",
}


def constrained(constraint: DecodingConstraint, dialects: Dialects) -> dict[str, Any]:
    """The fields of a request's body.

    Raises: KeyError for a kind that the server does not take, which its features say.
    """
    kind = constraint.kind
    match dialects[kind]:
        case "response_format":
            schema = {"name": "answer", "strict": True, "schema": constraint.json_schema}
            return {"response_format": {"type": "json_schema", "json_schema": schema}}
        case "response_format_grammar":
            return {"response_format": {"type": "grammar", "grammar": constraint.grammar}}
        case "structured_outputs":
            return {"structured_outputs": vllm_constraint(constraint)}
        case "grammar":
            return {"grammar": constraint.grammar}


def vllm_constraint(constraint: DecodingConstraint) -> dict[str, Any]:
    """vLLM's structured outputs: one field, by its own name."""
    return {_VLLM_NAMES[constraint.kind]: constraint.given()[constraint.kind]}
