"""`harness doctor`: check the installation, keys, servers, data and folders.

Nothing is written, except for an unnamed file that tests whether a folder is writable, and the
tables of a team's database. Secrets are not shown: keys are listed by the names of their variables,
and sent only to the preset's own host.
"""

import platform
import re
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

import harness
from harness.backends._http import tls_context
from harness.backends.openai import PRESETS
from harness.calls.database import NETWORK_FILE_SYSTEMS, file_system_type
from harness.cli.options import JsonFormat
from harness.cli.verbs import all_verbs, load_verb
from harness.config.loading import load_variants
from harness.config.settings import (
    Settings,
    check_network,
    cloud_credentials,
    describe_key,
    read_secret,
)
from harness.declarations import (
    DISTRIBUTION,
    Declaration,
    declarations,
    declared_members,
    describe_exception,
)
from harness.engine.infrastructure import call_layers
from harness.engine.infrastructure import cluster as cluster_named
from harness.errors import ConfigError, HarnessError, install_command, suggest_name
from harness.plugin import CheckupFinding as Finding
from harness.plugin import CheckupState
from harness.plugins.anthropic import backend as anthropic
from harness.report.text import escape_text, format_size
from harness.terminal.console import print_listing

SECONDS = 1.0  # time limit for all endpoints together
START = "Start one to use it."
_MARKS = {"ok": Text("ok", "green"), "lack": Text("-", "yellow"), "broken": Text("!!", "bold red")}


def doctor(
    file: Annotated[Path | None, typer.Argument()] = None,
    cluster: bool = False,
    no_network: bool = False,
    form: JsonFormat = "table",
) -> None:
    """Check installation, keys, servers, data and folders, or a cluster.

    Args:
        file: With --cluster: a run file, to check whether its placed models fit.
        cluster: Check a cluster instead: the run file's placement.address, or the default one.
        no_network: Do not contact any server.
    """
    if cluster:
        _show({"Cluster": [*_clusters(file)]}, form)
    elif file is not None:
        raise ConfigError("A run file is checked only against a cluster.", "Add --cluster.")
    settings = Settings()
    variables = {preset.key for preset in PRESETS.values() if preset.key} | {anthropic.KEY}
    keys = {key: describe_key(key) for key in sorted(variables)}
    sections = {
        "Installed": [*_packages(), *_declared("Installed")],
        "Plug-ins": list(_plugins()),
        "Extras": list(_extras()),
        "Folders": [
            _folder("runs", settings.runs_dir, "broken"),
            _folder("cache", settings.cache_dir, "broken"),
            _folder("data", settings.data_dir, "lack"),
        ],
        "Data": list(_declared("Data")),
        "Keys": [*_keys(keys), *_clouds()],
    }
    if not no_network:
        sections["Folders"].extend(_call_layers(settings))
        answers = ask_all(list(_endpoints(keys)))
        absent = ", ".join(
            f"{finding.name} ({finding.detail})" for finding in answers if finding.remedy == START
        )
        sections["Endpoints"] = [finding for finding in answers if finding.remedy != START]
        if absent:
            sections["Endpoints"].append(Finding("lack", "not running", absent, START))
    _show(sections, form)


def _show(sections: Mapping[str, Sequence[Finding]], form: JsonFormat) -> NoReturn:
    print_listing(_rendered(sections), sections, form)
    broken = any(
        finding.state == "broken" for findings in sections.values() for finding in findings
    )
    raise typer.Exit(1 if broken else 0)


def _rendered(sections: Mapping[str, Sequence[Finding]]) -> RenderableType:
    """Render findings by section, each with the remedy, if any."""
    parts: list[RenderableType] = []
    for title, findings in sections.items():
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(no_wrap=True, min_width=2)
        table.add_column(overflow="fold")
        for finding in findings:
            line = escape_text(f"{finding.name}  {finding.detail}".strip())
            line.stylize("bold", 0, len(finding.name))
            if finding.remedy:
                line = Text.assemble(line, "\n", (escape_text(finding.remedy).plain, "dim"))
            table.add_row(_MARKS[finding.state], line)
        parts += [Text(title, style="bold underline"), table, ""]
    return Group(*parts[:-1])


def _clusters(file: Path | None) -> Iterator[Finding]:
    runs = [] if file is None else load_variants(file).values()
    models = [(run.model, run.polish, *(j.model for j in run.judges)) for run in runs]
    sections = [section for several in models for section in several if section is not None]
    placed = {
        section.name or section.backend: section.placement
        for section in sections
        if section.placement
    }
    if not declared_members("clusters"):
        yield Finding("broken", "clusters", "no plug-in brings one")
    for name in declared_members("clusters"):
        of_engine = {label: place for label, place in placed.items() if place.engine == name}
        yield from cluster_named(name).check(of_engine)


def _plugins() -> Iterator[Finding]:
    for declaration in sorted(declarations(), key=lambda declaration: declaration.name):
        remedy = f"Fix or uninstall {declaration.package}."
        faults = list(_faults(declaration))
        for fault in faults:
            yield Finding("broken", declaration.name, fault, remedy)
        if not faults:
            package = "" if declaration.package == DISTRIBUTION else f" ({declaration.package})"
            yield Finding("ok", declaration.name, f"{declaration.plugin.summary}{package}")


def _faults(declaration: Declaration) -> Iterator[str]:
    """Yield what is wrong with a plug-in. The harness's own are not imported: that takes long."""
    if declaration.problem:
        yield declaration.problem
    names = {declared.name for declared in declarations()}
    for name in declaration.plugin.requires:
        if name not in names:
            hint = suggest_name(name, names)
            yield f"requires the plug-in {name!r}, which is not installed. {hint}"
    for name, verb in declaration.plugin.verbs.items():
        if all_verbs()[name] != declaration.resolve_verb(verb):
            yield f"verb {name!r}: another verb of this name is built in, or of another plug-in"
    if declaration.package == DISTRIBUTION:
        return
    reported = set()
    for member in declaration.members():
        try:
            member.load()
        except HarnessError as error:
            reported.add(member.title)
            yield f"{member.title}: {error}"
        except Exception as error:  # a third party's module may raise anything
            reported.add(member.title)
            yield f"{member.title} cannot be imported ({describe_exception(error)})"
    for name, verb in declaration.plugin.verbs.items():
        if f"verb {name!r}" not in reported:
            try:
                load_verb(name, declaration.resolve_verb(verb))
            except HarnessError as error:
                yield error.message


def _packages() -> Iterator[Finding]:
    yield Finding("ok", "Python", f"{platform.python_version()} on {platform.system()}")
    commit = checked_out_commit(Path(harness.__file__).parents[1])
    version = harness.__version__
    yield Finding("ok", "harness", f"{version}, commit {commit}" if commit else version)
    for package in ("openai", "anthropic", "nltk"):
        try:
            yield Finding("ok", package, metadata.version(package))
        except metadata.PackageNotFoundError:
            remedy = f"pip install {harness.DISTRIBUTION}"
            yield Finding("broken", package, "is not installed", remedy)


def checked_out_commit(folder: Path) -> str:
    """Return the commit of a clone, with "-dirty" if files are modified, or "" elsewhere."""
    git = folder / ".git"
    if not git.exists():  # such as site-packages, perhaps within another repository
        return ""
    command = ["git", f"--git-dir={git}", f"--work-tree={folder}", "describe"]
    command += ["--always", "--dirty", "--exclude=*"]
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return process.stdout.strip()


def _declared(section: str) -> Iterator[Finding]:
    """Yield the findings of plug-ins on a section."""
    for member in declared_members("checkups").get(section, ()):
        yield from member.load()()


def _extras() -> Iterator[Finding]:
    required = metadata.requires(harness.DISTRIBUTION) or []
    extras = dict.fromkeys(re.findall(r"extra == ['\"]([\w-]+)", "\n".join(required)))
    absent = []
    for extra in extras:
        packages = list(dict.fromkeys(_of_extra(harness.DISTRIBUTION, extra)))
        if all(map(_is_installed, packages)):
            yield Finding("ok", extra, ", ".join(packages))
        else:
            absent.append(extra)
    if absent:
        remedy = f"To add one: {install_command('NAME')}"
        yield Finding("lack", "not installed", ", ".join(absent), remedy)


def _of_extra(package: str, extra: str) -> Iterator[str]:
    """Yield the packages that an extra installs."""
    for line in metadata.requires(package) or []:
        match = re.match(r"([\w.-]+)(?:\[([\w,-]+)\])?[^;]*;.*extra == ['\"]([\w-]+)", line)
        if match is None or match[3] != extra:
            continue
        if match[1] != package:
            yield match[1]
        for inner in (match[2] or "").split(",") if _is_installed(match[1]) else ():
            yield from _of_extra(match[1], inner)


def _is_installed(package: str) -> bool:
    try:
        metadata.version(package)
    except metadata.PackageNotFoundError:
        return False
    return True


def _folder(name: str, path: Path, otherwise: CheckupState) -> Finding:
    """Return a finding on a folder, with the state ``otherwise`` if it cannot be written."""
    there = path.absolute()
    try:
        while not there.exists():
            there = there.parent
        with tempfile.TemporaryFile(dir=there) as file:
            file.write(b"\n")
            file.flush()
        free = format_size(shutil.disk_usage(there).free)
    except OSError as error:
        remedy = f"Fix its permissions, or set HARNESS_{name.upper()}_DIR to another folder."
        return Finding(otherwise, name, f"{path}: cannot be written: {error.strerror}", remedy)
    kind = file_system_type(there)
    facts = [kind, f"{free} free", "" if there == path.absolute() else "will be created"]
    if name == "cache":
        slow = "safe mode: slower, because it is a network file system"
        facts.append(slow if kind in NETWORK_FILE_SYSTEMS else "fast mode (WAL)")
    return Finding("ok", name, f"{path}: {', '.join(filter(None, facts))}")


def _call_layers(settings: Settings) -> Iterator[Finding]:
    try:
        for layer in call_layers(settings):
            yield from layer.check()
    except HarnessError as error:
        yield Finding("broken", "shared cache", error.message, error.remedy)


def _keys(states: Mapping[str, str]) -> Iterator[Finding]:
    for key, state in states.items():
        if state == "is set":
            yield Finding("ok", key, state)
        elif state != "is not set":
            yield Finding("lack", key, state, "Copy the key again.")
    if unset := [key for key, state in states.items() if state == "is not set"]:
        remedy = "To use one: export NAME=…, or add a line NAME=… to a file .env here."
        yield Finding("lack", "not set", ", ".join(unset), remedy)


def _clouds() -> Iterator[Finding]:
    sources = cloud_credentials()
    for cloud, source in sources.items():
        if source is not None:
            yield Finding("ok", f"{cloud} credentials", source)
    if absent := [cloud for cloud, source in sources.items() if source is None]:
        remedy = "To log in: gcloud auth application-default login, aws sso login, or az login."
        yield Finding("lack", "no credentials", ", ".join(absent), remedy)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server to contact."""

    name: str
    url: str  # of its list of models
    key: str | None = None  # the environment variable with its key; None for a local server
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)  # may hold the key


def _endpoints(keys: Mapping[str, str]) -> Iterator[Endpoint]:
    for name, preset in PRESETS.items():
        if preset.url and preset.key is None:
            yield Endpoint(name, f"{preset.url}/models")
        elif preset.url and preset.key and keys[preset.key] == "is set":
            headers = {"authorization": f"Bearer {read_secret(preset.key)}"}
            yield Endpoint(name, f"{preset.url}/models", preset.key, headers)
    if keys[anthropic.KEY] == "is set":  # every version lists the models
        headers = {"x-api-key": read_secret(anthropic.KEY), "anthropic-version": "2023-06-01"}
        yield Endpoint("anthropic", f"{anthropic.URL}/v1/models", anthropic.KEY, headers)


def ask_all(endpoints: Sequence[Endpoint], seconds: float = SECONDS) -> list[Finding]:
    """Contact all servers at once, for at most ``seconds`` seconds, and return their findings.

    Each server is contacted in a daemon thread instead of a task: a DNS look-up cannot be
    cancelled, and a closing event loop would wait for it.
    """
    import httpx2

    try:
        context = tls_context()
    except ConfigError as error:
        return [Finding("lack", "TLS", error.message, error.remedy)]
    end = time.monotonic() + seconds
    answers: dict[str, Finding] = {}

    def ask(endpoint: Endpoint) -> None:
        hosted = endpoint.key is not None  # a local server is reached without a proxy
        try:
            if hosted:
                check_network()
            with (
                httpx2.Client(timeout=seconds, trust_env=hosted, verify=context) as client,
                client.stream("GET", endpoint.url, headers=endpoint.headers) as answer,
            ):
                answers[endpoint.name] = _answered(endpoint, answer.status_code)
        except httpx2.TimeoutException:
            pass  # reported below
        except ConfigError as error:
            answers[endpoint.name] = Finding("lack", endpoint.name, error.message, error.remedy)
        except Exception as error:  # from the transport, a proxy's address or a certificate
            problem = endpoint.url.removesuffix("/models")
            remedy = START
            if hosted:  # the error's message could quote a proxy's password
                problem = f"cannot be reached ({type(error).__name__})"
                remedy = "Check the network, a proxy and its certificates."
            answers[endpoint.name] = Finding("lack", endpoint.name, problem, remedy)

    threads = [threading.Thread(target=ask, args=[endpoint], daemon=True) for endpoint in endpoints]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    late = f"no answer in {seconds:g} s:"
    remedy = "Check the network, or try again."
    silent = {
        endpoint.name: Finding("lack", endpoint.name, f"{late} {endpoint.url}", remedy)
        for endpoint in endpoints
    }
    return list({**silent, **answers}.values())


def _answered(endpoint: Endpoint, status: int) -> Finding:
    if status in (401, 403):
        remedy = f"Check the key in {endpoint.key}." if endpoint.key else "It requires a key."
        return Finding("lack", endpoint.name, f"rejects the key ({status})", remedy)
    if status >= 500 or 300 <= status < 400 or (status == 404 and not endpoint.key):
        remedy = f"Check what is running at {endpoint.url}."
        return Finding("lack", endpoint.name, f"unexpected status {status}", remedy)
    return Finding("ok", endpoint.name, "answers" if status == 200 else f"answers ({status})")
