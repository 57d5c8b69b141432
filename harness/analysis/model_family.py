"""The family of a model, by its name: whose kind it is of, where a judge may prefer its own.

Owns the names that are known, with the prefixes of providers and the suffixes of fine-tunes
around them. Guesses nothing: a name that says nothing has no family, and one that says two
(`DeepSeek-R1-Distill-Llama-8B`) has both.

>>> sorted(families("meta-llama/Llama-3.1-8B-Instruct"))
['Llama']
>>> common_family("us.anthropic.claude-sonnet-4-v1:0", "claude-3-haiku@20240307")
'Claude'
>>> common_family("my-judge", "gpt-4") is None
True
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

_NAMES: Mapping[str, str] = {
    "OpenAI": r"chatgpt|gpt-?(?:[1-9](?!\d*(?:all|free)|[\d.]*b(?![a-z])|-?x-)|oss)"
    r"|(?:text-|code-)?davinci"
    r"|text-(?:curie|babbage|ada)|code-cushman|babbage-002|codex(?![a-z])",
    "Claude": r"claude",
    "Llama": r"(?:code)?llama(?![a-z])|vicuna|alpaca",
    "Qwen": r"(?:code)?qwen|qwq|qvq",
    "Mistral": r"mistral(?!ai)|mixtral|ministral|codestral|devstral|magistral|mathstral|pixtral"
    r"|voxtral",
    "Gemini": r"gemini|(?:code|recurrent|shield|pali|med|tx)?gemma|(?:text|chat|code)-bison",
    "DeepSeek": r"deepseek",
    "Phi": r"phi-?[1-9]",
    "Command": r"command(?:-(?:r|a|light|nightly|xlarge|text|medium)(?![a-z]))"
    r"|aya-(?:23|expanse|vision)",
    "Grok": r"grok(?![a-z])",
    "Nova": r"nova-(?:micro|lite|pro|premier)",
    "GLM": r"(?:chat)?glm-?[1-9]",
    "Kimi": r"kimi|moonshot-v1",
    "Yi": r"yi-(?:[1-9]|large|lightning|coder|vl)",
    "OLMo": r"olmo",
    "Granite": r"granite-(?:[1-9]|code|guardian)",
    "Falcon": r"falcon-?(?:[1-9]|rw|mamba|h1)",
    "InternLM": r"internlm",
    "Jamba": r"jamba(?![a-z])",
    "Hunyuan": r"hunyuan",
    "ERNIE": r"ernie-?(?:[1-9]|bot|x[1-9])",
    "MiniMax": r"minimax-?(?:text|m[1-9]|01)",
    "Baichuan": r"baichuan",
    "SmolLM": r"smollm",
}
"""A family to what names it, anywhere in a model's name where a word begins.

Left out on purpose: GPT-J, GPT-Neo, GPT4All, gpt4free and a ``gpt-`` before a size, such as
`Cerebras-GPT-13B` (not OpenAI's), OpenLLaMA and TinyLlama (trained anew), and whatever does not
tell of what it was tuned (Zephyr, WizardLM).
"""

_OTHERS = re.compile(r"open[_-]llama")
"""What has a family's name in it and is none of it."""

_FAMILIES = {family: re.compile(rf"(?<![a-z0-9])(?:{names})") for family, names in _NAMES.items()}

_O_SERIES = re.compile(r"o[1-9](?:$|[-@](?:mini|preview|pro|deep|\d{4}))")
"""Of OpenAI's: so short that it must be the whole beginning of the name."""

_ALONE = {"phi": "Phi", "command": "Command"}
"""Names of models that, as a part of a longer one, are mere words."""


@lru_cache(maxsize=1024)
def families(name: str) -> frozenset[str]:
    """The families that a model's name tells of; none where it tells nothing."""
    own = _own(name)
    found = {family for family, names in _FAMILIES.items() if names.search(_OTHERS.sub("", own))}
    if _O_SERIES.match(own):
        found.add("OpenAI")
    if own in _ALONE:
        found.add(_ALONE[own])
    return frozenset(found)


def common_family(judge: str, model: str) -> str | None:
    """What a judging model and the judged one have in common: a family, or the very name.

    None where they have nothing in common that their names tell.
    """
    common = families(judge) & families(model)
    if common:
        return ", ".join(sorted(common))
    return judge if judge and _own(judge) == _own(model) else None


def _own(name: str) -> str:
    """The name in small letters without a provider's path, a tag, and what a user has named.

    ``ft:MODEL:OWNER:SUFFIX:ID`` is OpenAI's form of a fine-tune; a tag stands behind ``:``.
    """
    last = name.strip().lower().rstrip("/").rpartition("/")[2]
    base, *further = last.split(":")
    return further[0] if base == "ft" and further else base
