"""What of a placed backend needs no cluster: what it is, and what it refuses."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from harness.backends import OwnedServers
from harness.config.sections import PlacementSection
from harness.engine.infrastructure import cluster
from harness.errors import ConfigError, ExtraMissing
from harness.plugin_loader import kind
from harness.plugins.ray.copy_actor import CopySpec
from harness.plugins.ray.placed import PlacedBackend, placed

PLACEMENT = PlacementSection(engine="ray", replicas=4)
NO_RAY = importlib.util.find_spec("ray") is None


def supplied(folder: Path) -> dict[str, Any]:
    names = ("gold", "wrong", "reply", "read", "on_allowances", "prompt_cut")
    given = {"concurrency": 20, "timeout_s": 60, "reply_mb": 64, "model": "m"}
    own = {"servers": OwnedServers(), "logs": folder, "cache_dir": folder}
    return {**dict.fromkeys(names), **given, **own, "secret": lambda name: "a-key-of-tests"}


def test_it_is_the_backend_that_it_places(tmp_path: Path) -> None:
    given = supplied(tmp_path)
    options = {"engine": {"max_num_seqs": 8}}
    inner: Any = kind("backends").build("vllm_engine", options, **given)
    spec = CopySpec("vllm_engine", options, given, (), str(tmp_path))
    found: Any = PlacedBackend(inner, spec, PLACEMENT, lambda _: {}, given["servers"])
    assert found.features == inner.features
    assert found.endpoint == inner.endpoint
    assert found.fingerprint() == inner.fingerprint()
    assert found.preferred_concurrency == 4 * inner.preferred_concurrency
    assert (found.capacity, found.ready) == (0, False)


def test_a_mistyped_cluster_names_the_right_one() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'ray'"):
        cluster("rai")


@pytest.mark.skipif(not NO_RAY, reason="Ray is installed")
def test_without_ray_the_error_names_the_extra(tmp_path: Path) -> None:
    with pytest.raises(ExtraMissing, match=r"\[ray\]"):
        placed("simulated", {}, PLACEMENT, supplied(tmp_path))


@pytest.mark.skipif(NO_RAY, reason="Ray is not installed")
@pytest.mark.parametrize(
    ("backend", "options"),
    [("openai", {}), ("replay", {"path": "x"}), ("vllm_server", {"base_url": "http://x/v1"})],
)
def test_a_backend_that_computes_nothing_is_refused(
    backend: str, options: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="for models that compute"):
        placed(backend, options, PLACEMENT, supplied(tmp_path))
