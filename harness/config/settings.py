"""Settings and secrets: the only module that reads the environment and ``.env``.

>>> Settings().runs_dir  # doctest: +SKIP
PosixPath('runs')
"""

from __future__ import annotations

from pathlib import Path

from platformdirs import user_cache_path, user_data_path
from pydantic import Field, SecretStr, create_model
from pydantic_settings import BaseSettings, SettingsConfigDict

from harness.errors import SecretMissing


class Settings(BaseSettings):
    """Where things are on this machine: ``HARNESS_RUNS_DIR``, ``HARNESS_CACHE_DIR``, …

    runs_dir: holds a folder per run.
    cache_dir: holds the file of paid replies, shared by all runs.
    data_dir: holds data sets, laid out by name.
    """

    model_config = SettingsConfigDict(env_prefix="HARNESS_", env_file=".env", extra="ignore")

    runs_dir: Path = Path("runs")
    cache_dir: Path = Field(default_factory=lambda: user_cache_path("harness"))
    data_dir: Path = Field(default_factory=lambda: user_data_path("harness"))


class _Environment(BaseSettings):
    model_config = SettingsConfigDict(env_file=".env", extra="ignore", case_sensitive=True)


def secret(variable: str) -> str:
    """The value of a secret.

    variable: name of the environment variable (or the line in ``.env``).

    Raises: SecretMissing, naming the variable.
    """
    reader = create_model(
        "Secret",
        __base__=_Environment,
        value=(SecretStr | None, Field(default=None, validation_alias=variable)),
    )
    value: SecretStr | None = getattr(reader(), "value")  # noqa: B009 (made above)
    if value is None or not value.get_secret_value().strip():
        raise SecretMissing(
            f"The environment variable {variable} is not set.",
            f"Set it, or put '{variable}=…' into a file named .env here.",
        )
    return value.get_secret_value().strip()
