"""A request as vLLM's sampling parameters, without vLLM: names and values.

They are what vLLM's own server makes of the same request: what a run file leaves out has the
value of the model's generation configuration, and an answer may fill the context.

Source: vLLM's `SamplingParams` and `StructuredOutputsParams`, as of 0.32.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.backends._bodies import vllm_constraint
from harness.errors import RequestRejected
from harness.records import DecodingConstraint, Request

TEMPLATE = "chat_template_kwargs"
"""What of ``decoding.extra`` is for the chat template and not for sampling, as on the wire."""


def sampling(request: Request, defaults: Mapping[str, Any], room: int) -> dict[str, Any]:
    """Fields of vLLM's sampling parameters.

    defaults: of the model's generation configuration.
    room: tokens that the context has left beside the prompt.

    Raises: RequestRejected where the answer could not fit.
    """
    decoding = request.decoding
    wanted = decoding.max_tokens
    if room < 1 or (wanted is not None and wanted > room):
        raise RequestRejected(
            f"The context has room for {max(room, 0)} tokens beside this prompt, and the answer "
            f"may have {wanted or 1}.",
            "Lower decoding.max_tokens, or raise model.engine.max_model_len.",
        )
    longest = min(room, defaults.get("max_tokens") or room)
    given = {
        "temperature": decoding.temperature,
        "top_p": decoding.top_p,
        "max_tokens": wanted or longest,
        "stop": list(decoding.stop) or None,
        "seed": request.seed,
        "logprobs": decoding.logprobs,
        "prompt_logprobs": 0 if decoding.prompt_logprobs else None,
    }
    fields = dict(defaults) | {name: value for name, value in given.items() if value is not None}
    fields |= {name: value for name, value in decoding.extra.items() if name != TEMPLATE}
    if isinstance(decoding.constraint, DecodingConstraint):
        fields["structured_outputs"] = vllm_constraint(decoding.constraint)
    return fields


def template_options(request: Request) -> dict[str, Any]:
    """What the chat template is given beside the messages."""
    told = request.decoding.extra.get(TEMPLATE, {})
    if not isinstance(told, dict):
        raise RequestRejected(f"decoding.extra.{TEMPLATE} is a mapping.", "Write {name: value}.")
    return told
