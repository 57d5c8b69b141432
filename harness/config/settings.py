"""Settings and secrets, from the environment and ``.env``.

No other module reads them, except that shell completion looks up ``HARNESS_RUNS_DIR``.
"""

import contextlib
import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from platformdirs import user_cache_path, user_data_path
from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from harness.errors import ConfigError, SecretMissing
from harness.execution import set_runs_root


@contextlib.contextmanager
def _reading_dotenv() -> Iterator[None]:
    try:
        if Path(".env").is_fifo():  # reading it may wait for ever
            raise ConfigError("The file .env is a pipe.", "Replace it by a regular file.")
        yield
    except UnicodeDecodeError:
        raise ConfigError("The file .env is not UTF-8 text.", "Save it as UTF-8.") from None
    except OSError as error:
        problem = f"Cannot read the file .env: {error.strerror}."
        raise ConfigError(problem, "Fix its permissions.") from None


_REQUIREMENTS = {
    "ask_above_usd": "is not an amount in US dollars, such as 1.5",
    "fetch": "is neither true nor false",
    "observe_content": "is neither true nor false",
}
"""For each setting that is no text or path, what is wrong with an invalid value."""


class Settings(BaseSettings):
    """The user's settings on this machine: ``HARNESS_RUNS_DIR``, ``HARNESS_CACHE_DIR``, …

    The environment takes precedence over ``.env``, and an empty variable counts as unset.
    """

    model_config = SettingsConfigDict(
        env_prefix="HARNESS_", env_file=".env", env_ignore_empty=True, extra="ignore"
    )

    runs_dir: Path = Path("runs")
    cache_dir: Path = Field(default_factory=lambda: user_cache_path("harness"))
    data_dir: Path = Field(default_factory=lambda: user_data_path("harness"))
    runs_url: str = (
        ""  # the object store to which runs are copied, so that others can continue them
    )
    cache_url: SecretStr | None = None  # the PostgreSQL database of a team's cache
    cache_key: SecretStr | None = None  # encrypts the replies in that database
    prices: Path | None = None  # the user's price file
    fetch: bool = True  # published data sets are downloaded when a run first needs them
    observers: str = ""  # names of observers, separated by commas
    observe_content: bool = False  # observers may send prompts and answers elsewhere
    ask_above_usd: float = 1.0  # a run that may cost more asks first, on a terminal

    def __init__(self, **values: Any) -> None:
        try:
            with _reading_dotenv():
                super().__init__(**values)
        except ValidationError as error:
            [field, *_] = error.errors()[0]["loc"]
            name = f"HARNESS_{field}".upper()
            fault = _REQUIREMENTS.get(str(field), "is not valid")  # the value may be secret
            problem = f"The environment variable {name} {fault}."
            remedy = "Set it to a valid value, or unset it, also in the file .env."
            raise ConfigError(problem, remedy) from None
        set_runs_root(self.runs_dir)

    @field_validator("runs_dir", "cache_dir", "data_dir", "prices")
    @classmethod
    def _expand_home(cls, path: Path | None) -> Path | None:
        try:
            return path.expanduser() if path else None
        except RuntimeError:  # no such user: treat "~name" as a folder's name
            return path


def is_variable_set(name: str) -> bool:
    """Return whether a variable of the environment or ``.env`` is set, and not empty."""
    return name in _variables()


def read_variable(name: str) -> str:
    """Return the value of a variable in the environment or ``.env``, or "" if it is not set."""
    return _variables().get(name, "")


def visible_gpus() -> tuple[str, ...] | None:
    """Return the GPU ids in ``CUDA_VISIBLE_DEVICES``.

    They are () if the variable hides all GPUs, and None if it is not set.
    """
    ids = os.environ.get("CUDA_VISIBLE_DEVICES")  # Slurm sets it; CUDA reads no .env
    if ids is None:
        return None
    parts = [part.strip() for part in ids.split(",")]
    if parts[0] in ("", "-1"):
        return ()
    return tuple(filter(None, parts))


def environment_variable(name: str) -> str | None:
    """Return the value of an environment variable, not in ``.env``, or None if unset or empty."""
    return os.environ.get(name) or None


def nltk_folders() -> list[Path]:
    """Return the folders in which NLTK looks for data, without importing NLTK, which is slow."""
    configured = [Path(name) for name in os.environ.get("NLTK_DATA", "").split(":") if name]
    installed = [Path(sys.prefix, folder, "nltk_data") for folder in ("", "share", "lib")]
    shared = [Path("/usr", folder, "nltk_data") for folder in ("share", "local/share", "lib")]
    return [*configured, Path("~/nltk_data").expanduser(), *installed, *shared]


def has_display() -> bool:
    """Return whether a browser would open in a window rather than in the terminal."""
    if sys.platform in ("win32", "darwin"):
        return True
    return any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")))


@contextlib.contextmanager
def temporary_variables(**variables: str) -> Iterator[None]:
    """Set environment variables within a ``with`` block. Blocks must not overlap."""
    previous = {name: os.environ.pop(name) for name in variables if name in os.environ}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            os.environ.pop(name, None)
        os.environ.update(previous)


def set_variables(variables: Mapping[str, str]) -> None:
    """Set environment variables of this process and of those that it starts."""
    os.environ.update(variables)


class _DotEnv(BaseSettings):
    model_config = SettingsConfigDict(env_file=".env", extra="allow", case_sensitive=True)


def _variables() -> dict[str, str]:
    """Return the non-empty variables of the environment and, with less priority, ``.env``."""
    with _reading_dotenv():
        dotenv = _DotEnv().model_extra or {}
    variables = {}
    for name, value in (*dotenv.items(), *os.environ.items()):
        if value:  # an empty variable does not hide that of ``.env``
            variables[name] = value
    return variables


PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")  # or in lower case
# [SCHEME://][USER:PASSWORD@]HOST[:PORT], perhaps followed by a path or query
_PROXY = re.compile(
    r"(?i)((https?|socks5h?)://|(?!.*://))([^\x00-\x1f\x7f/?#]*@)?"
    r"([\w.-]+|\[[\da-f:.]+\])(:\d*)?([/?#][^@]*)?"
)


def check_network() -> None:
    """Raise ConfigError if a variable of the environment that HTTP libraries read is malformed.

    The message never shows a proxy's password. HTTP libraries would quote one with a slash as the
    port, and end with a traceback if the file for TLS keys cannot be written.
    """
    key_log = environment_variable("SSLKEYLOGFILE")
    if key_log:
        try:
            Path(key_log).open("ab").close()
        except OSError:
            problem = "The environment variable SSLKEYLOGFILE names a file that cannot be written."
            raise ConfigError(problem, "Name another file, or unset it.") from None
    for variable, value in os.environ.items():
        if variable.upper() not in PROXY_VARIABLES or not value:
            continue
        if _PROXY.fullmatch(value) is None:
            problem = f"The environment variable {variable} is not the URL of a proxy."
            form = "Write http://HOST:PORT, with USER:PASSWORD@ before the host if needed."
            raise ConfigError(problem, f"{form} In these, write / as %2F, ? as %3F and # as %23.")
        bypassed = "*" in (
            environment_variable("no_proxy") or environment_variable("NO_PROXY") or ""
        ).split(",")
        is_socks = value.lower().startswith("socks")
        if is_socks and not bypassed and find_spec("socksio") is None:
            problem = f"The environment variable {variable} names a SOCKS proxy, which needs the "
            raise ConfigError(f"{problem}package socksio.", "Install it: pip install socksio.")


def certificates_error() -> ConfigError:
    """Return the error for TLS certificates that cannot be loaded.

    It names the environment variables that may be the cause, if any of them is set.
    """
    names = [name for name in ("SSL_CERT_FILE", "SSL_CERT_DIR") if environment_variable(name)][:1]
    names += [name for name in ("SSLKEYLOGFILE",) if environment_variable(name)]
    if not names:
        return ConfigError("The system's certificates cannot be loaded.", "Set SSL_CERT_FILE.")
    variables = "variable" if len(names) == 1 else "variables"
    problem = f"The environment {variables} {' and '.join(names)} cannot be used for TLS."
    return ConfigError(problem, "Name an existing file of certificates (PEM), or unset it.")


SECRET_NAME = re.compile(
    r"(?i).*(API_?KEY|ACCESS_KEY|TOKEN|SECRET|SECRET_KEY|PASSWORD|CACHE_URL|CACHE_KEY)"
)
MIN_SECRET_CHARS = 8  # minimum characters of a secret: a shorter text may be a word in any file


def configured_secrets(names: Collection[str] = ()) -> Mapping[str, str]:
    """Return the secrets in the environment and ``.env``, by variable.

    They are the values of the variables ``names``, and of those that are named like secrets, such
    as ``…_API_KEY``. Values shorter
    than `MIN_SECRET_CHARS` are left out.
    """
    secrets = {}
    for name, value in _variables().items():
        is_secret = name in names or SECRET_NAME.fullmatch(name) is not None
        if is_secret and len(value.strip()) >= MIN_SECRET_CHARS:
            secrets[name] = value.strip()
    return secrets


def mask_secrets(text: str) -> str:
    """Replace secrets by the names of their variables, and hide passwords in URLs.

    The value of any variable whose name ends in ``KEY`` counts as a secret here, and so does a part
    of a URL's path that looks like a key.
    """
    with contextlib.suppress(ConfigError):  # the message may be about an unreadable .env
        keys = [name for name in _variables() if name.upper().endswith("KEY")]
        for name, value in configured_secrets(keys).items():
            text = text.replace(value, f"${name}")
    text = re.sub(r"://[^/\s@]+:[^/\s@]+@", "://…@", text)
    return re.sub(r"https?://[^\s'\"]+", lambda url: mask_url_keys(url[0]), text)


HASHED_KEY_PREFIX = "[key:"  # of the hash of a key in a URL
# 16 letters and digits in a row, with at least one of each
_KEY_PART = re.compile(r"(?=[a-zA-Z]*\d)(?=\d*[a-zA-Z])[a-zA-Z\d]{16}")

_COMMIT = re.compile(r"[0-9a-f]{40}(?:\.zip)?")  # the hash of a commit, or its archive


def mask_url_keys(url: str) -> str:
    """Return a URL with "[key]" for the parts of its path that look like keys."""
    return _replace_url_keys(url, lambda key: "[key]")


def hash_url_keys(url: str) -> str:
    """Return a URL with hashes for the parts of its path that look like keys.

    A change of such a part thus remains a change of the URL.
    """
    return _replace_url_keys(
        url, lambda key: f"{HASHED_KEY_PREFIX}{sha256(key.encode()).hexdigest()[:8]}]"
    )


def _replace_url_keys(url: str, replacement_of: Callable[[str], str]) -> str:
    """Return a URL with a replacement for each part of its path that looks like a key."""
    keys = url_keys(url)
    parts = url.split("/")
    for index, part in enumerate(parts):
        if part in keys:
            parts[index] = replacement_of(part)
    return "/".join(parts)


def url_keys(url: str) -> list[str]:
    """Return the parts of a URL's path that look like keys.

    They have 16 letters and digits in a row. The hash of a commit on GitHub is no key.
    """
    host, *parts = url.split("/")[2:] or [""]
    at_github = host in ("github.com", "raw.githubusercontent.com")
    keys = filter(_KEY_PART.search, parts)
    return [part for part in keys if not (at_github and _COMMIT.fullmatch(part))]


def required_variables(names: Iterable[str]) -> dict[str, str]:
    """Return the values of variables in the environment or ``.env``, by name.

    Raises:
        ConfigError: If any of them is not set.
    """
    values = _variables()
    if missing := sorted({*names} - values.keys()):
        problem = f"The environment variables {', '.join(missing)} are not set."
        raise ConfigError(problem, "Set them, or remove them from placement.env.")
    return {name: values[name] for name in names}


def read_secret(variable: str) -> str:
    """Return the secret in a variable of the environment or ``.env``.

    No message shows a malformed name of a variable, because it may be the secret itself.

    Raises:
        SecretMissing: If the variable is not set.
        ConfigError: If the variable's name or its value is malformed.
    """
    value = _variables().get(variable, "").strip()
    if not value and not re.fullmatch(r"[A-Z_][A-Z0-9_]*", variable):
        problem = "The environment variable that api_key_env names is not set."
        remedy = "Set api_key_env to a variable's name, such as OPENAI_API_KEY, never the key."
        raise ConfigError(problem, remedy)
    if not value:
        remedy = f"Set it, or add a line '{variable}=…' to the file .env in this folder."
        raise SecretMissing(f"The environment variable {variable} is not set.", remedy)
    if not (value.isascii() and value.isprintable()):
        beginning = f"The environment variable {variable} contains a line break or a character"
        raise ConfigError(f"{beginning} that keys do not contain.", "Copy the key again.")
    return value


_CLOUD_CREDENTIALS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "Google Cloud": (
        ("GOOGLE_APPLICATION_CREDENTIALS",),
        ".config/gcloud/application_default_credentials.json",
    ),
    "AWS": (("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_ROLE_ARN"), ".aws/credentials"),
    "Azure": (("AZURE_CLIENT_ID",), ".azure/msal_token_cache.json"),
}
"""For each cloud, the variables and the file in which its library looks for credentials first."""


def cloud_credentials() -> dict[str, str | None]:
    """Return the source of the credentials for each cloud, or None if there are none.

    A source is an environment variable or a path. Other sources, such as the role of a virtual
    machine, are not detected.
    """
    sources: dict[str, str | None] = {}
    for cloud, (variables, file) in _CLOUD_CREDENTIALS.items():
        source = next(filter(os.environ.get, variables), None)
        if source is None and (Path.home() / file).is_file():
            source = f"~/{file}"
        sources[cloud] = source
    return sources


def describe_key(variable: str) -> str:
    """Describe the state of a key, such as "is not set", without revealing the key."""
    try:
        read_secret(variable)
    except SecretMissing:
        return "is not set"
    except ConfigError:
        return "is set to something that cannot be a key"
    return "is set"
