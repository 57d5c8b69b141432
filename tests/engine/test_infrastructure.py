"""What plug-ins change in how calls are made."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, ValidationError

from harness.config.settings import Settings
from harness.config.validation import Declared
from harness.engine.infrastructure import CallLayer, call_layers
from harness.errors import ConfigError
from tests.installed import install_plugin

LAYER = """
from harness.engine.infrastructure import CallLayer

class Facts(CallLayer):
    def facts(self):
        return {"of a plug-in": "a fact"}

def layer(settings):
    return Facts() if settings.observe_content else None
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of packages, with one that declares a layer."""
    site = tmp_path / "site"
    install_plugin(site, LAYER, {"call_layers": {"facts": "layer"}})
    monkeypatch.syspath_prepend(str(site))
    return site


def of_plugin(layers: list[CallLayer]) -> list[CallLayer]:
    return [layer for layer in layers if layer.facts()]


def test_a_plug_in_adds_a_layer_if_the_settings_ask_for_it(site: Path) -> None:
    (layer,) = of_plugin(call_layers(Settings(observe_content=True)))
    assert layer.facts() == {"of a plug-in": "a fact"}
    assert layer.shared_rates("model") is None
    assert list(layer.check()) == []
    assert of_plugin(call_layers(Settings())) == []


def test_what_no_plug_in_brings_is_an_error_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])  # no package is installed there
    with pytest.raises(ConfigError, match="no plug-in shares replies"):
        call_layers(Settings(cache_url="postgresql://localhost/harness"))
    with pytest.raises(ValidationError, match=r"no plug-in for this key .*harness docs batches"):
        Section.model_validate({"batch": True})
    assert Section.model_validate({"batch": None}).batch is None


class Section(BaseModel):
    batch: Annotated[Any, Declared("limits.no_such_key", "batches")] = None
