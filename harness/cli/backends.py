"""`harness backends`: the available backends, their options, and the presets with their keys."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rich.text import Text

from harness.backends.openai import PRESETS
from harness.cli.console import output
from harness.cli.tasks import plugin_card
from harness.config.settings import secret
from harness.errors import ConfigError, SecretMissing
from harness.plugins import kind
from harness.ports import CONSTRAINTS, PARAMETERS
from harness.report.listings import Option, plugin_list, preset_list


def backends() -> None:
    """List the backends with their options, and the presets."""
    cards = {name: plugin_card("backends", name) for name in kind("backends").names()}
    for name, card in cards.items():
        cards[name] = replace(card, facts=_features(name, card.options))
    output.print(plugin_list(cards))
    output.print(Text("Presets of openai and openai_completions", style="bold"))
    presets = [
        (
            name,
            preset.title,
            preset.url or f"yours, like {preset.hint}",
            f"{preset.key} {key_state(preset.key)}" if preset.key else "takes no key",
        )
        for name, preset in PRESETS.items()
    ]
    output.print(preset_list(presets))


def key_state(variable: str) -> str:
    """Describe whether a key is set, without revealing it."""
    try:
        secret(variable)
    except SecretMissing:
        return "is not set"
    except ConfigError:
        return "is set to something that cannot be a key"
    return "is set"


def _features(name: str, options: tuple[Option, ...]) -> tuple[tuple[str, str], ...]:
    """Return what a backend declares when it is built with its defaults; nothing is contacted."""
    needed = {option.name: option.name for option in options if option.default is None}
    given: dict[str, Any] = {
        "secret": lambda variable: "",
        "read": lambda path: iter(()),
        "gold": lambda instance: None,
        "concurrency": 1,
        "timeout_s": 1.0,
    }
    try:
        features: frozenset[str] = kind("backends").build(name, needed, **given).features
    except Exception:  # whatever a third party's constructor does
        return (("features", "depend on its options"),)
    return (
        ("accepts", ", ".join(sorted(PARAMETERS & features)) or "no decoding parameters"),
        ("constrains answers by", ", ".join(sorted(CONSTRAINTS & features)) or "nothing"),
        ("features", ", ".join(sorted(features - PARAMETERS - CONSTRAINTS)) or "none"),
    )
