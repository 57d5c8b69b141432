"""Downloads and converts the data sets of the catalogue (``harness data fetch``).

Downloads are kept in ``DATA/downloads/NAME/``, where you can also put files downloaded by hand. A
file gets its final name only if its size and hash, as far as known, are right. Existing files are
not overwritten. Data that runs need is downloaded before they start.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

from filelock import FileLock, Timeout

from harness.backends._http import tls_context
from harness.config.run_file import RunFile
from harness.config.sections import JudgeSection
from harness.config.settings import Settings, check_network, nltk_folders
from harness.datasets.catalogue import DataSet, Original, Product, catalogue, find_data_set
from harness.datasets.folder import content_sha256, installed_file, sha256
from harness.engine.judges import prompt_data_sets
from harness.engine.models import ModelBuilder, Resources, build_models
from harness.errors import DataInvalid, DataMissing, HarnessError, UserError, unreadable_file_error
from harness.plugin import CheckupFinding
from harness.store.run_folder import RunFolder
from harness.store.runs import run_name
from harness.terminal.console import messages, say

SILENCE = 30.0  # seconds without a byte after which a download is abandoned
MOST_REDIRECTS = 5

# Called with the number of bytes received so far, and the total (None if unknown).
Progress = Callable[[int, int | None], None]


def summary(dataset: DataSet, root: Path) -> str:
    """Return how much of a data set is installed: "yes", "no", "in part" or "other content"."""
    present = [_is_there(product, root) for product in dataset.products]
    if None in present:
        return "other content"
    if all(present):
        return "yes"
    return "in part" if any(present) else "no"


def in_nltk_folder(dataset: DataSet) -> Path | None:
    """Return the first of NLTK's own folders that has all files of a data set, or None."""
    paths = [PurePath(product.path) for product in dataset.products]
    if dataset.folder != "nltk_data":
        return None
    for folder in nltk_folders():
        if all((folder / path.relative_to(dataset.folder)).is_file() for path in paths):
            return folder
    return None


def check() -> Iterator[CheckupFinding]:
    """Yield what is installed of each data set, for ``harness doctor``."""
    root = Settings().data_dir
    for name, dataset in catalogue().items():
        yield _checked(name, dataset, root)


def _checked(name: str, dataset: DataSet, root: Path) -> CheckupFinding:
    try:
        state = summary(dataset, root)
    except (HarnessError, OSError) as error:
        return CheckupFinding("lack", name, f"cannot be read: {error}", "Fix its permissions.")
    if elsewhere := in_nltk_folder(dataset):
        return CheckupFinding("ok", name, f"installed in {elsewhere}")
    if state == "yes":
        return CheckupFinding("ok", name, "installed")
    command = f"harness data fetch {name}"
    if state == "other content":
        problem = "installed, but differs from the published files"
        return CheckupFinding("lack", name, problem, f"Move it away and run '{command}'.")
    problem = "missing" if state == "no" else "incomplete"
    return CheckupFinding("lack", name, f"{problem}: {dataset.about}", command)


def fetch(
    dataset: DataSet,
    root: Path,
    mirror: str | None = None,
    progress: Callable[[Original], Progress] = lambda original: lambda there, total: None,
) -> list[str]:
    """Create the products of a data set that are missing from the data folder.

    Originals that are not in the folder of downloads already are downloaded.

    Args:
        dataset: The data set.
        root: The data folder.
        mirror: URL of a folder with the originals as ``NAME/FILE``, or None to use their own URLs.
        progress: Called with each original to download. Returns its `Progress` callback.

    Returns:
        The paths of the created products, relative to the data folder.
    """
    states = [(product, _is_there(product, root)) for product in dataset.products]
    if others := ", ".join(product.path for product, state in states if state is None):
        raise DataInvalid(f"These files differ from the published ones: {others}.", "Move it away.")
    missing = [product for product, state in states if not state]
    if not missing:
        return []
    downloads = root / "downloads" / dataset.name
    try:
        with _folder(downloads), _locked(downloads):
            arrived = set()
            for original in dataset.originals:
                if not any(original.name in product.originals for product in missing):
                    continue
                url = original.url
                if mirror:
                    url = f"{mirror.rstrip('/')}/{dataset.name}/{original.name}"
                file = downloads / original.name
                if not file.is_file():
                    download(original, url, file, progress(original))
                    arrived.add(file)
                elif difference := _difference(original, file):
                    problem = f"{file} {difference}."
                    raise DataInvalid(problem, "Remove it, and run the command again.")
            for product in missing:
                files = [downloads / name for name in product.originals]
                try:
                    _make(product, files, root / product.path)
                except DataInvalid:
                    for file in arrived & {*files}:  # never a file that the user has put there
                        file.unlink()
                    raise
    except Timeout:
        problem = f"Another process is fetching {dataset.name!r}."
        raise UserError(problem, "Wait until it has finished.") from None
    except OSError as error:
        problem = f"Cannot write {error.filename or downloads}: {error.strerror}."
        remedy = "Fix that, or set HARNESS_DATA_DIR to another folder, and run the command again."
        raise DataMissing(problem, remedy) from None
    return [product.path for product in missing]


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock a folder in a ``with`` block. The lock file is removed at its end."""
    path = folder / ".lock"
    with FileLock(path, timeout=0):
        try:
            yield
        finally:
            with contextlib.suppress(OSError):  # Windows removes no open file
                path.unlink()


@contextlib.contextmanager
def _folder(folder: Path) -> Iterator[None]:
    """Create a folder. At the end of the ``with`` block, new folders that are empty are removed."""
    missing = [path for path in (folder, *folder.parents) if not path.is_dir()]
    try:
        for path in reversed(missing):
            path.mkdir(mode=0o755, exist_ok=True)  # `parents=True` ignores the mode
        yield
    finally:
        with contextlib.suppress(OSError):  # it is not empty, or was not created
            for path in missing:
                path.rmdir()


def _make(product: Product, originals: Sequence[Path], path: Path) -> None:
    with _folder(path.parent):
        _write(product, originals, path)


def _write(product: Product, originals: Sequence[Path], path: Path) -> None:
    new = path.with_name(f".{path.name}.new")
    digest = hashlib.sha256()
    try:
        # Writable only by its owner, whatever the umask: NLTK requires that.
        with open(new, "wb", opener=lambda path, flags: os.open(path, flags, 0o644)) as opened:
            for piece in _pieces(product, originals):
                digest.update(piece)
                opened.write(piece)
            opened.flush()
            os.fsync(opened.fileno())
        if product.sha256 not in (None, digest.hexdigest()):
            problem = (
                f"{product.path} gets the sha256 {digest.hexdigest()} and not {product.sha256}"
            )
            sources = " and ".join(map(str, originals))
            remedy = f"Remove {sources} if you put it there yourself, and run the command again."
            raise DataInvalid(f"From {sources}, {problem}; it is not used.", remedy)
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


def _pieces(product: Product, originals: Sequence[Path]) -> Iterator[bytes]:
    try:
        yield from product.make(*originals)
    except OSError as error:  # an error of writing is raised outside of this function
        raise unreadable_file_error(Path(error.filename or originals[0]), error) from None


def _is_there(product: Product, root: Path) -> bool | None:
    """Return whether a product is in the data folder, or None if its content is wrong."""
    path = installed_file(root, product.path)
    if path is None:
        return False
    try:
        return product.sha256 in (None, content_sha256(path)) or None
    except OSError as error:
        raise unreadable_file_error(path, error) from None


def download(
    original: Original,
    url: str,
    file: Path,
    progress: Progress = lambda there, total: None,
    silence: float = SILENCE,
) -> None:
    """Download a published file. If the download fails, nothing of it is kept.

    Args:
        original: Describes the file: its size (or the size limit) and hash are checked.
        url: The URL to download it from.
        file: The path to write, in an existing folder.
        progress: Called with the numbers of bytes received and expected (None if unknown).
        silence: Seconds without a byte from the server after which the download is abandoned.

    Raises:
        DataInvalid: If the file has another size or hash.
        DataMissing: If the server does not deliver it.
        OSError: If it cannot be written.
        ConfigError: If the URL of a proxy is invalid.
    """
    import httpx2  # slow to import, and most commands do not need the network

    check_network()
    part = file.with_name(f"{file.name}.part")
    public = re.sub(r"//[^/@]*@", "//", url, count=1)  # without user name and password
    remedy = f"Run the command again, or download it by hand to {file}."
    try:
        redirects = {"follow_redirects": True, "max_redirects": MOST_REDIRECTS}
        options: Any = {"headers": {"User-Agent": "harness"}, "timeout": silence, **redirects}
        options["verify"] = tls_context()
        with httpx2.Client(**options) as client, client.stream("GET", url) as response:
            if response.status_code != 200:
                status = f"{response.status_code} {response.reason_phrase}".strip()
                raise httpx2.HTTPError(f"the server says {status}")
            announced = response.headers.get("Content-Length", "")
            total = int(announced) if announced.isdecimal() else original.size
            there = 0
            limit = original.size or original.limit
            with part.open("wb") as opened:
                for piece in response.iter_bytes():
                    there += opened.write(piece)
                    if there > limit:
                        break
                    progress(there, total)
                opened.flush()
                os.fsync(opened.fileno())
            difference = _difference(original, part)
            if there > limit:
                difference = f"has more than the {limit:,} bytes expected"
            if difference:
                raise DataInvalid(f"{public} {difference}; nothing of it is kept.", remedy)
            part.replace(file)
            return
    except httpx2.TooManyRedirects:
        problem = f"it redirects more than {MOST_REDIRECTS} times"
    except httpx2.TimeoutException:
        problem = f"no answer within {silence:g} seconds"
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        error_text = re.sub(r"^\[Errno -?\d+\] ", "", str(error)).rstrip(".")
        problem = error_text or type(error).__name__
    finally:
        part.unlink(missing_ok=True)
    raise DataMissing(f"Cannot fetch {public}: {problem}.", remedy)


def _difference(original: Original, file: Path) -> str:
    """Describe how a file differs from the published original, or return "" if they agree."""
    try:
        size = file.stat().st_size
        if original.size is not None and size != original.size:
            return f"has {size:,} bytes, not {original.size:,}"
        if original.sha256 is not None and (digest := sha256(file)) != original.sha256:
            return f"has the sha256 {digest}, not {original.sha256}"
    except OSError as error:
        raise unreadable_file_error(file, error) from None
    return ""


def fetch_published(runs: Mapping[str, RunFile], base: str, resources: Resources) -> None:
    """Download the published data sets and prompts that the runs need, unless they are installed.

    The runs are given by variant, and their names begin with ``base``. Before a data set is
    downloaded, the runs' models are built, so that a missing API key is reported first. Other data
    that an installed data set needs is downloaded only if none of the runs has begun, because a run
    must keep its verdicts. Nothing is downloaded if HARNESS_FETCH is false.
    """
    settings = resources.settings
    published = set()
    judges: list[JudgeSection] = []
    for run in runs.values():
        judges += run.judges
        option = run.task.options.get("dataset", "builtin")
        if option != "builtin":
            published.add((run.task.name, option))
    if judges:
        fetch_prompts(prompt_data_sets(judges), settings)
    if not published or not settings.fetch:
        return
    has_begun = any(
        RunFolder(settings.runs_dir, run_name(base, name)).has_attempts() for name in runs
    )
    missing: dict[str, tuple[DataSet, bool]] = {}  # by name; True if a task cannot run without it
    for task, option in sorted(published):
        dataset = catalogue().get(task)
        if dataset is None or not dataset.option or dataset.option != option:
            continue
        absent = summary(dataset, settings.data_dir) == "no"
        if absent:
            missing[dataset.name] = dataset, True
        for name in dataset.needs if absent or not has_begun else ():
            needed = catalogue()[name]
            if summary(needed, settings.data_dir) == "no" and not in_nltk_folder(needed):
                missing[needed.name] = needed, False
    if missing:
        for name, run in runs.items():
            logs = RunFolder(settings.runs_dir, run_name(base, name)).servers
            build_models(run, ModelBuilder(resources, run.limits, logs, run_file_folder=run.folder))
    for to_install, required in missing.values():
        say(f"Fetching {to_install.name} ({to_install.licence}) from {to_install.home}")
        try:
            install(to_install, settings.data_dir)
        except HarnessError as error:
            if required:
                own_data = "Or use our own instances: -o task.dataset=builtin."
                remedy = f"{error.remedy} {own_data}".strip()
                raise DataMissing(error.message, remedy) from None
            say(f"{error.message} To try again: harness data fetch {to_install.name}", "yellow")


def fetch_prompts(names: Iterable[str], settings: Settings) -> None:
    """Download missing data sets of published prompts, unless HARNESS_FETCH is false."""
    if not settings.fetch:
        return
    for dataset in map(find_data_set, names):
        if summary(dataset, settings.data_dir) != "yes":
            say(f"Fetching {dataset.name} ({dataset.licence}) from {dataset.home}")
            try:
                install(dataset, settings.data_dir)
            except DataMissing as error:
                command = f"Or, when there is a network: harness data fetch {dataset.name}."
                raise DataMissing(error.message, f"{error.remedy} {command}") from None


def install(dataset: DataSet, root: Path, mirror: str | None = None) -> list[str]:
    """Fetch a data set into the data folder ``root``, and show a progress bar for each file.

    ``mirror`` is the URL of a folder with the original files as NAME/FILE (default: their own
    URLs). Return the paths of the created files, relative to ``root``: none if all are installed.

    Raises:
        DataInvalid: If a file differs from the published one.
        DataMissing: If a file cannot be downloaded or written.
        UserError: If another process is fetching the data set.
    """
    from rich import progress  # not needed unless a file is missing

    columns = (
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        progress.DownloadColumn(),
    )
    with progress.Progress(*columns, console=messages, disable=not messages.is_terminal) as bars:

        def progress_bar(original: Original) -> Progress:
            bar = bars.add_task(original.name, total=original.size)
            return lambda there, total: bars.update(bar, completed=there, total=total)

        return fetch(dataset, root, mirror, progress_bar)
