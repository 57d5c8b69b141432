import gzip
import hashlib
import io
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from filelock import FileLock
from msgspec.structs import replace

from harness.datasets.catalogue import DataSet, Original, Product, catalogue, member, unchanged
from harness.errors import DataInvalid, DataMissing, UserError
from harness.plugins.data.fetch import fetch, in_nltk_folder, summary
from tests.datasets.file_server import FileServer

ZIP = io.BytesIO()
with zipfile.ZipFile(ZIP, "w") as opened:
    opened.writestr("toy/one.txt", "one")
    opened.writestr("../evil.txt", "evil")


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def rows(original: Path) -> Iterator[bytes]:
    """One row for each line of an original, which must be ASCII."""
    for line in original.read_bytes().splitlines():
        if not line.isascii():
            raise DataInvalid(f"{original} is not ASCII.")
        yield json.dumps({"id": line.decode()}).encode() + b"\n"


LINES = b"first\nsecond\n"
ROWS = b'{"id": "first"}\n{"id": "second"}\n'
TOY = DataSet(
    name="toy",
    about="A toy",
    licence="none",
    home="https://example.invalid",
    folder="toys",
    originals=(
        Original("toy.txt", "https://x.invalid/toy.txt", None, digest(LINES), 10_000),
        Original("toy.zip", "https://x.invalid/toy.zip", len(ZIP.getvalue()), None, 10_000),
    ),
    products=(
        Product("toys/instances.jsonl", "toy.txt", rows, digest(ROWS)),
        Product("toys/a/one.txt", "toy.zip", partial(member, name="toy/one.txt"), digest(b"one")),
    ),
)
PATHS = [product.path for product in TOY.products]
UNREADABLE = Path("/proc/self/mem")  # nothing is at its beginning


@pytest.fixture
def server() -> Iterator[FileServer]:
    files = {"/toy/toy.txt": LINES, "/toy/toy.zip": ZIP.getvalue()}
    with FileServer(files) as server:
        yield server


def files(root: Path) -> set[str]:
    found = (path.relative_to(root) for path in root.rglob("*") if path.is_file())
    return {str(path) for path in found if path.name != ".lock"}


def test_a_data_set_is_fetched_and_converted(server: FileServer, tmp_path: Path) -> None:
    assert summary(TOY, tmp_path) == "no"
    assert fetch(TOY, tmp_path, server.url) == PATHS
    assert summary(TOY, tmp_path) == "yes"
    assert (tmp_path / PATHS[0]).read_bytes() == ROWS
    assert (tmp_path / PATHS[1]).read_text() == "one"
    downloads = {f"downloads/toy/{name}" for name in ("toy.txt", "toy.zip")}
    assert files(tmp_path) == {*PATHS, *downloads}


def test_a_second_fetch_asks_nobody(server: FileServer, tmp_path: Path) -> None:
    fetch(TOY, tmp_path, server.url)
    server.requests.clear()
    before = (tmp_path / PATHS[0]).stat().st_mtime_ns
    assert fetch(TOY, tmp_path, server.url) == []
    assert (tmp_path / PATHS[0]).stat().st_mtime_ns == before
    assert server.requests == []


def test_only_what_is_missing_is_made_again(server: FileServer, tmp_path: Path) -> None:
    fetch(TOY, tmp_path, server.url)
    (tmp_path / PATHS[1]).unlink()
    assert summary(TOY, tmp_path) == "in part"
    server.requests.clear()
    assert fetch(TOY, tmp_path, server.url) == [PATHS[1]]
    assert server.requests == []  # the original is still there


def test_originals_may_be_put_there_by_hand(tmp_path: Path) -> None:
    downloads = tmp_path / "downloads" / "toy"
    downloads.mkdir(parents=True)
    (downloads / "toy.txt").write_bytes(LINES)
    (downloads / "toy.zip").write_bytes(ZIP.getvalue())
    assert fetch(TOY, tmp_path, "http://127.0.0.1:9") == PATHS


def test_wrong_originals_put_there_by_hand_stay_and_are_named(tmp_path: Path) -> None:
    file = tmp_path / "downloads" / "toy" / "toy.txt"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"another\n")
    with pytest.raises(DataInvalid, match=r"toy\.txt has the sha256") as caught:
        fetch(TOY, tmp_path)
    assert caught.value.remedy.startswith("Remove it")
    assert file.exists()
    assert summary(TOY, tmp_path) == "no"


def test_a_wrong_hash_is_refused_and_the_right_one_then_taken(
    server: FileServer, tmp_path: Path
) -> None:
    server.files["/toy/toy.txt"] = b"another\n"
    with pytest.raises(DataInvalid, match="sha256"):
        fetch(TOY, tmp_path, server.url)
    assert files(tmp_path) == set()
    server.files["/toy/toy.txt"] = LINES
    assert fetch(TOY, tmp_path, server.url) == PATHS


def test_a_wrong_product_is_refused_and_the_right_one_then_taken(
    server: FileServer, tmp_path: Path
) -> None:
    right = server.files["/toy/toy.zip"]
    other = io.BytesIO()
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("toy/one.txt", "two")
        archive.writestr("../evil.txt", "evil")
    server.files["/toy/toy.zip"] = other.getvalue()
    with pytest.raises(DataInvalid, match=r"toys/a/one\.txt gets the sha256"):
        fetch(TOY, tmp_path, server.url)
    assert "toys/a/one.txt" not in files(tmp_path)
    assert "toys/a/.one.txt.new" not in files(tmp_path)
    server.files["/toy/toy.zip"] = right
    fetch(TOY, tmp_path, server.url)
    assert summary(TOY, tmp_path) == "yes"


def test_an_original_that_cannot_be_converted_makes_nothing(
    server: FileServer, tmp_path: Path
) -> None:
    server.files["/toy/toy.txt"] = data = b"first\n\xff\n"
    damaged = replace(TOY.originals[0], sha256=digest(data))
    toy = replace(TOY, originals=(damaged, TOY.originals[1]))
    with pytest.raises(DataInvalid, match="is not ASCII"):
        fetch(toy, tmp_path, server.url)
    assert not files(tmp_path) & set(PATHS)


def test_what_is_there_with_other_content_is_never_written_over(
    server: FileServer, tmp_path: Path
) -> None:
    own = tmp_path / PATHS[1]
    own.parent.mkdir(parents=True)
    own.write_text("my own")
    assert summary(TOY, tmp_path) == "other content"
    with pytest.raises(DataInvalid, match=PATHS[1]) as caught:
        fetch(TOY, tmp_path, server.url)
    assert "Move it away" in caught.value.remedy
    assert own.read_text() == "my own"
    assert server.requests == []


def test_two_fetches_do_not_meet(server: FileServer, tmp_path: Path) -> None:
    (tmp_path / "downloads" / "toy").mkdir(parents=True)
    with (
        FileLock(tmp_path / "downloads" / "toy" / ".lock"),
        pytest.raises(UserError, match="Another process is fetching 'toy'"),
    ):
        fetch(TOY, tmp_path, server.url)


def test_a_folder_that_cannot_be_made(server: FileServer, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file")
    with pytest.raises(DataMissing, match="Cannot write") as caught:
        fetch(TOY, tmp_path / "data", server.url)
    assert "HARNESS_DATA_DIR" in caught.value.remedy


@pytest.mark.skipif(not UNREADABLE.exists(), reason="no file that even root cannot read")
@pytest.mark.parametrize("sha256", [None, "0" * 64])
def test_an_original_that_cannot_be_read_is_named(tmp_path: Path, sha256: str | None) -> None:
    original = tmp_path / "downloads" / "toy" / "toy.txt"
    original.parent.mkdir(parents=True)
    original.symlink_to(UNREADABLE)
    toy = replace(
        TOY,
        originals=(Original("toy.txt", "https://x.invalid/toy.txt", None, sha256, 10_000),),
        products=(Product("toys/toy.txt", "toy.txt", unchanged),),
    )
    with pytest.raises(DataMissing, match=r"Cannot read .*toy\.txt: Input/output error"):
        fetch(toy, tmp_path)
    assert files(tmp_path) == {"downloads/toy/toy.txt"}


@pytest.fixture
def english(data_dir: Path) -> dict[str, bytes]:
    default = data_dir.parent / "nltk_data"
    folder = Path(os.environ.get("NLTK_DATA") or default) / "tokenizers" / "punkt_tab" / "english"
    if not folder.is_dir():
        pytest.skip("no English Punkt parameters: set NLTK_DATA")
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_punkt_lands_where_nltk_takes_it(english: dict[str, bytes], tmp_path: Path) -> None:
    """Also under a umask that lets the group write: NLTK refuses what others may change."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, content in english.items():
            opened.writestr(f"punkt_tab/english/{name}", content)
            opened.writestr(f"punkt_tab/german/{name}", b"nichts")
    with FileServer({"/punkt/punkt_tab.zip": archive.getvalue()}) as server:
        umask = os.umask(0o002)
        try:
            made = fetch(catalogue()["punkt"], tmp_path / "data", server.url)
        finally:
            os.umask(umask)
    assert len(made) == 4
    script = (
        "import sys; from pathlib import Path; from harness.plugins.benchmarks import punkt;"
        "print(punkt.english(Path(sys.argv[1])).name)"
    )
    said = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", "-c", script, tmp_path / "data/nltk_data"],
        capture_output=True,
        text=True,
        check=False,
        env={name: value for name, value in os.environ.items() if name != "NLTK_DATA"},
    )
    assert said.stdout.endswith("punkt_tab english\n"), said.stderr


def test_data_in_a_folder_of_nltk_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NLTK_DATA", f"{tmp_path / 'other'}:{tmp_path}")
    *most, last = catalogue()["punkt"].products
    for product in most:
        path = tmp_path / Path(product.path).relative_to("nltk_data")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert in_nltk_folder(catalogue()["punkt"]) is None
    (tmp_path / Path(last.path).relative_to("nltk_data")).touch()
    assert in_nltk_folder(catalogue()["punkt"]) == tmp_path
    assert in_nltk_folder(TOY) is None


def test_a_failed_fetch_leaves_no_folders_and_a_complete_one_no_lock(
    server: FileServer, tmp_path: Path
) -> None:
    with pytest.raises(DataMissing):
        fetch(TOY, tmp_path / "data", "http://127.0.0.1:9")
    assert not (tmp_path / "data").exists()
    fetch(TOY, tmp_path / "data", server.url)
    assert not [*(tmp_path / "data").rglob(".lock")]


def test_a_compressed_product_is_installed(server: FileServer, tmp_path: Path) -> None:
    fetch(TOY, tmp_path, server.url)
    path = tmp_path / PATHS[0]
    path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    assert summary(TOY, tmp_path) == "yes"
    assert fetch(TOY, tmp_path) == []
    path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(b"{}"))
    assert summary(TOY, tmp_path) == "other content"
