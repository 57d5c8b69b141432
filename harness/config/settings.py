"""Settings and secrets: the only module that reads the environment and ``.env``.

>>> Settings().runs_dir  # doctest: +SKIP
PosixPath('runs')
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from platformdirs import user_cache_path, user_data_path
from pydantic import Field, SecretStr, create_model, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from harness.errors import ConfigError, SecretMissing


class _Environment(BaseSettings):
    """The environment over ``.env``; a variable set to nothing counts as not set."""

    model_config = SettingsConfigDict(env_file=".env", env_ignore_empty=True, extra="ignore")

    def __init__(self, **given: Any) -> None:
        try:
            super().__init__(**given)
        except UnicodeDecodeError:
            raise ConfigError("The file .env is not text in UTF-8.", "Write it anew.") from None
        except OSError as error:
            raise ConfigError(
                f"Cannot read the file .env: {error.strerror}.", "Mend its permissions."
            ) from None


class Settings(_Environment):
    """Where things are on this machine: ``HARNESS_RUNS_DIR``, ``HARNESS_CACHE_DIR``, …

    runs_dir: holds a folder per run.
    cache_dir: holds the file of paid replies, shared by all runs.
    data_dir: holds data sets, laid out by name.
    prices: a file of the user's own prices, over the built-in ones.
    vllm_command: what starts a vLLM server here, in a shell's words; where it is empty, the
        vLLM that is installed beside the harness.
    """

    model_config = SettingsConfigDict(env_prefix="HARNESS_")

    runs_dir: Path = Path("runs")
    cache_dir: Path = Field(default_factory=lambda: user_cache_path("harness"))
    data_dir: Path = Field(default_factory=lambda: user_data_path("harness"))
    prices: Path | None = None
    vllm_command: str = ""

    @field_validator("runs_dir", "cache_dir", "data_dir", "prices")
    @classmethod
    def _home_is_meant(cls, path: Path | None) -> Path | None:
        try:
            return path.expanduser() if path else None
        except RuntimeError:  # there is no such user: then it is a folder's name
            return path


class _OfCUDA(BaseSettings):
    """What CUDA itself reads of the environment, and of no ``.env``; Slurm sets it."""

    cuda_visible_devices: str | None = None


def visible_gpus() -> tuple[str, ...] | None:
    """The GPUs that this process may use, as CUDA names them; None where nobody said.

    Empty where all are hidden, by an empty text or by -1.
    """
    named = _OfCUDA().cuda_visible_devices
    if named is None:
        return None
    parts = [part.strip() for part in named.split(",")]
    return () if parts[0] in ("", "-1") else tuple(part for part in parts if part)


@contextlib.contextmanager
def handed_down(**variables: str) -> Iterator[None]:
    """Set variables, for a while, for a library that takes its settings from them.

    They are its child processes' too, and everybody's: at a time, one may set the same ones.
    """
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


class _Secrets(_Environment):
    model_config = SettingsConfigDict(case_sensitive=True)


def secret(variable: str) -> str:
    """The value of a secret.

    variable: name of the environment variable (or the line in ``.env``).

    Raises: SecretMissing, naming the variable; ConfigError where no variable is
        named so (it may be the key itself, which is not shown), or where its
        value can be no key.
    """
    reader = create_model(
        "Secret",
        __base__=_Secrets,
        value=(SecretStr | None, Field(default=None, validation_alias=variable)),
    )
    value: SecretStr | None = getattr(reader(), "value")  # noqa: B009 (made above)
    text = value.get_secret_value().strip() if value else ""
    if not text and not re.fullmatch(r"[A-Z_][A-Z0-9_]*", variable):
        raise ConfigError(
            "The run file names an environment variable for a key (api_key_env) that is not set.",
            "It must hold a variable's name, such as OPENAI_API_KEY, and never the key itself.",
        )
    if not text:
        raise SecretMissing(
            f"The environment variable {variable} is not set.",
            f"Set it, or put '{variable}=…' into a file named .env here.",
        )
    if not (text.isascii() and text.isprintable()):
        raise ConfigError(
            f"The environment variable {variable} holds a line break or a letter that no key has.",
            "Copy the key again.",
        )
    return text
