"""`harness backends`: the available backends, their options, and the presets with their keys."""

from __future__ import annotations

from dataclasses import replace

from rich.text import Text

from harness.backends.openai import PRESETS
from harness.cli.console import output
from harness.config.settings import secret
from harness.errors import ConfigError, HarnessError, SecretMissing
from harness.plugins import kind
from harness.ports import CONSTRAINTS, PARAMETERS
from harness.report.listings import Card, Option, describe, plugin_list, preset_list


def backends() -> None:
    """List the backends with their options, and the presets."""
    list_backends()


def list_backends() -> None:
    """Print every backend, then the presets. Keys are shown by name, never by value."""
    output.print(plugin_list({name: _card(name) for name in kind("backends").names()}))
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
    """Say whether a key is set, without revealing it."""
    try:
        secret(variable)
    except SecretMissing:
        return "is not set"
    except ConfigError:
        return "is set to something that cannot be a key"
    return "is set"


def _card(name: str) -> Card:
    try:
        card = describe(kind("backends").load(name))
    except HarnessError as error:
        return Card(f"cannot be used: {error}")
    except (TypeError, ValueError, NameError) as error:  # it has no readable signature
        return Card(f"cannot be used: its constructor cannot be read ({error})")
    return replace(card, facts=(*card.facts, *_features(name, card.options)))


def _features(name: str, options: tuple[Option, ...]) -> tuple[tuple[str, str], ...]:
    """Return what a backend declares when it is built with its defaults; nothing is contacted."""
    needed = {option.name: option.name for option in options if option.default is None}
    try:
        features: frozenset[str] = (
            kind("backends")
            .build(
                name,
                needed,
                secret=lambda variable: "",
                read=lambda path: iter(()),
                gold=lambda instance: None,
                concurrency=1,
                timeout_s=1.0,
            )
            .features
        )
    except Exception:  # whatever a third party's constructor does
        return (("features", "depend on its options"),)
    taken, held = sorted(PARAMETERS & features), sorted(CONSTRAINTS & features)
    others = sorted(features - PARAMETERS - CONSTRAINTS)
    return (
        ("accepts", ", ".join(taken) or "no decoding parameters"),
        ("constrains answers by", ", ".join(held) or "nothing"),
        ("features", ", ".join(others) or "none"),
    )
