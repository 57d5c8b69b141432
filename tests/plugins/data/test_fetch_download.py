import hashlib
import random
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from harness.datasets.catalogue import Original
from harness.errors import DataInvalid, DataMissing, UserError
from harness.plugins.data.fetch import download
from tests.datasets.file_server import FileServer

BODY = random.Random(1).randbytes(300_000)
ORIGINAL = Original(
    "x.bin", "https://example.invalid/x.bin", len(BODY), hashlib.sha256(BODY).hexdigest(), 400_000
)
UNKNOWN = replace(ORIGINAL, size=None, sha256=None)


@pytest.fixture
def server() -> Iterator[FileServer]:
    with FileServer({"/x.bin": BODY}) as server:
        yield server


def fetch(
    server: FileServer, folder: Path, original: Original = ORIGINAL, silence: float = 20.0
) -> bytes:
    file = folder / "x.bin"
    download(original, f"{server.url}/x.bin", file, silence=silence)
    assert sorted(path.name for path in folder.iterdir()) == ["x.bin"]
    return file.read_bytes()


def failure(
    server: FileServer, folder: Path, original: Original = ORIGINAL, silence: float = 20.0
) -> UserError:
    with pytest.raises(UserError) as caught:
        fetch(server, folder, original, silence)
    assert not (folder / "x.bin").exists()
    assert str(folder / "x.bin") in caught.value.remedy
    return caught.value


@pytest.mark.parametrize("original", [ORIGINAL, UNKNOWN])
@pytest.mark.parametrize("length", [True, False])
def test_a_file_is_downloaded(
    server: FileServer, tmp_path: Path, original: Original, length: bool
) -> None:
    server.length = length
    assert fetch(server, tmp_path, original) == BODY
    assert server.requests == ["/x.bin"]


def test_progress_is_told(server: FileServer, tmp_path: Path) -> None:
    told: list[tuple[int, int | None]] = []
    download(
        ORIGINAL, f"{server.url}/x.bin", tmp_path / "x.bin", lambda *figures: told.append(figures)
    )
    assert told[-1] == (300_000, 300_000)
    assert [there for there, _ in told] == sorted(there for there, _ in told)


def test_an_interrupted_download_leaves_nothing(server: FileServer, tmp_path: Path) -> None:
    server.cut = 120_000
    assert "Run the command again" in failure(server, tmp_path).remedy
    assert list(tmp_path.iterdir()) == []
    server.cut = None
    assert fetch(server, tmp_path) == BODY


def test_a_wrong_hash_is_refused_and_nothing_kept(server: FileServer, tmp_path: Path) -> None:
    server.files["/x.bin"] = BODY[:-1] + b"!"
    error = failure(server, tmp_path)
    assert isinstance(error, DataInvalid)
    assert f", not {ORIGINAL.sha256}" in error.message
    assert list(tmp_path.iterdir()) == []
    server.files["/x.bin"] = BODY
    assert fetch(server, tmp_path) == BODY


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (BODY[:-5], "has 299,995 bytes, not 300,000"),
        (BODY + b"x", "has more than the 300,000 bytes"),
    ],
)
@pytest.mark.parametrize("length", [True, False])
def test_a_wrong_size_is_refused_and_nothing_kept(
    server: FileServer, tmp_path: Path, body: bytes, said: str, length: bool
) -> None:
    server.files["/x.bin"], server.length = body, length
    error = failure(server, tmp_path)
    assert isinstance(error, DataInvalid)
    assert said in error.message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("length", [True, False])
def test_more_than_the_limit_is_not_downloaded(
    server: FileServer, tmp_path: Path, length: bool
) -> None:
    server.files["/x.bin"], server.length = b"\0" * 5_000_000, length
    error = failure(server, tmp_path, UNKNOWN)
    assert "more than the 400,000 bytes expected" in error.message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("status", [403, 404, 429, 500, 503])
def test_a_refusal_names_the_status_and_the_way_by_hand(
    server: FileServer, tmp_path: Path, status: int
) -> None:
    server.status = status
    error = failure(server, tmp_path)
    assert f"{server.url}/x.bin: the server says {status} " in error.message
    assert f"by hand to {tmp_path / 'x.bin'}" in error.remedy


def test_a_redirect_is_followed(server: FileServer, tmp_path: Path) -> None:
    with FileServer(redirect=f"{server.url}/x.bin") as first:
        assert fetch(first, tmp_path) == BODY


def test_redirects_without_end_are_given_up(server: FileServer, tmp_path: Path) -> None:
    server.redirect = "/x.bin"
    assert "redirects more than 5 times" in failure(server, tmp_path).message
    assert len(server.requests) == 6


def test_a_silent_server_is_given_up(server: FileServer, tmp_path: Path) -> None:
    server.pace = 1.0
    assert "no answer within 0.2 seconds" in failure(server, tmp_path, silence=0.2).message


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("ftp://127.0.0.1/x", "unsupported protocol"),
        ("nonsense", "missing an 'http://' or 'https://'"),
        ("http://127.0.0.1:port/", "Invalid port"),
    ],
)
def test_a_url_that_is_none(tmp_path: Path, url: str, said: str) -> None:
    with pytest.raises(DataMissing, match="Cannot fetch") as caught:
        download(ORIGINAL, url, tmp_path / "x.bin")
    assert said in caught.value.message


def test_no_network(tmp_path: Path) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    with pytest.raises(DataMissing, match="Connection refused") as caught:
        download(ORIGINAL, f"http://127.0.0.1:{port}/x.bin", tmp_path / "x.bin")
    assert "by hand" in caught.value.remedy


def test_a_password_in_the_url_is_not_shown(server: FileServer, tmp_path: Path) -> None:
    server.cut = 1000
    url = server.url.replace("//", "//someone:secret@") + "/x.bin"
    with pytest.raises(DataMissing) as caught:
        download(ORIGINAL, url, tmp_path / "x.bin")
    assert "secret" not in str(caught.value)


def test_a_full_disk_keeps_nothing(server: FileServer, tmp_path: Path) -> None:
    """A limit on the size of files stands in for a full disk."""
    ended = subprocess.run(
        [sys.executable, "-B", "-c", SMALL, f"{server.url}/x.bin", str(tmp_path / "x.bin")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("OSError: [Errno 27]")
    assert list(tmp_path.iterdir()) == []


SMALL = """
import resource, sys
from pathlib import Path
from harness.plugins.data.fetch import Original, download

resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, resource.RLIM_INFINITY))
original = Original("x.bin", "", 300_000, None, 400_000)
try:
    download(original, sys.argv[1], Path(sys.argv[2]))
except OSError as error:
    print(f"OSError: {error}")
"""
