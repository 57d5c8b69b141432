import hashlib
import itertools
import random
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness.datasets.catalogue import Original
from harness.datasets.fetch import download
from harness.errors import DataInvalid, DataMissing, UserError
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
    assert str(folder / "x.bin") in caught.value.remedy or "address" in caught.value.remedy
    return caught.value


def interrupted(server: FileServer, folder: Path, after: int = 120_000) -> None:
    server.cut = after
    error = failure(server, folder)
    assert f"resume after {after:,} bytes" in error.remedy
    assert (folder / "x.bin.part").stat().st_size == after
    server.cut = None
    server.requests.clear()


@pytest.mark.parametrize("original", [ORIGINAL, UNKNOWN])
@pytest.mark.parametrize("length", [True, False])
def test_a_file_is_downloaded(
    server: FileServer, tmp_path: Path, original: Original, length: bool
) -> None:
    server.length = length
    assert fetch(server, tmp_path, original) == BODY
    assert server.asked == [None]


def test_progress_is_told(server: FileServer, tmp_path: Path) -> None:
    told: list[tuple[int, int | None]] = []
    download(
        ORIGINAL, f"{server.url}/x.bin", tmp_path / "x.bin", lambda *figures: told.append(figures)
    )
    assert told[-1] == (300_000, 300_000)
    assert [there for there, _ in told] == sorted(there for there, _ in told)


def test_an_interrupted_download_goes_on(server: FileServer, tmp_path: Path) -> None:
    interrupted(server, tmp_path)
    assert fetch(server, tmp_path) == BODY
    assert server.asked == ["bytes=120000-"]


def test_it_goes_on_more_than_once(server: FileServer, tmp_path: Path) -> None:
    interrupted(server, tmp_path)
    server.cut = 50_000
    assert "after 170,000 bytes" in failure(server, tmp_path).remedy
    server.cut = None
    assert fetch(server, tmp_path) == BODY
    assert server.asked == ["bytes=120000-", "bytes=170000-"]


def test_a_server_without_ranges_begins_anew(server: FileServer, tmp_path: Path) -> None:
    interrupted(server, tmp_path)
    server.ranges = False
    assert fetch(server, tmp_path) == BODY
    assert server.asked == ["bytes=120000-"]


def test_a_server_without_versions_is_asked_for_all(server: FileServer, tmp_path: Path) -> None:
    server.versions = False
    interrupted(server, tmp_path)
    assert fetch(server, tmp_path) == BODY
    assert server.asked == [None]


def test_a_weak_version_is_none(server: FileServer, tmp_path: Path) -> None:
    server.versions, server.headers = False, {"ETag": 'W/"x"'}
    interrupted(server, tmp_path)
    assert fetch(server, tmp_path) == BODY
    assert server.asked == [None]


def test_another_version_begins_anew(server: FileServer, tmp_path: Path) -> None:
    server.files["/x.bin"] = BODY[::-1]
    interrupted(server, tmp_path)
    server.files["/x.bin"] = BODY
    assert fetch(server, tmp_path, UNKNOWN) == BODY


def test_versions_that_were_put_together_are_fetched_anew(
    server: FileServer, tmp_path: Path
) -> None:
    server.files["/x.bin"] = BODY[::-1]
    interrupted(server, tmp_path)
    server.files["/x.bin"], server.ignore_version = BODY, True
    assert fetch(server, tmp_path) == BODY
    assert server.asked == ["bytes=120000-", None]


def test_another_range_than_asked_for_begins_anew(server: FileServer, tmp_path: Path) -> None:
    interrupted(server, tmp_path)
    server.false_range = 1000
    assert fetch(server, tmp_path) == BODY
    assert server.asked == ["bytes=120000-", None]


def test_the_part_of_another_url_is_not_used(server: FileServer, tmp_path: Path) -> None:
    interrupted(server, tmp_path)
    (tmp_path / "x.bin.part.from").write_text('http://elsewhere/x.bin\n"1"')
    assert fetch(server, tmp_path) == BODY
    assert server.asked == [None]


@pytest.mark.parametrize("original", [ORIGINAL, UNKNOWN])
def test_all_had_arrived_but_the_name(
    server: FileServer, tmp_path: Path, original: Original
) -> None:
    interrupted(server, tmp_path)
    (tmp_path / "x.bin.part").write_bytes(BODY)
    assert fetch(server, tmp_path, original) == BODY
    assert server.asked == ([] if original is ORIGINAL else ["bytes=300000-", None])


def test_a_damaged_part_is_noticed(server: FileServer, tmp_path: Path) -> None:
    interrupted(server, tmp_path)
    (tmp_path / "x.bin.part").write_bytes(b"\0" * 120_000)
    assert fetch(server, tmp_path) == BODY


def test_a_wrong_hash_is_refused_and_nothing_kept(server: FileServer, tmp_path: Path) -> None:
    server.files["/x.bin"] = BODY[:-1] + b"!"
    error = failure(server, tmp_path)
    assert isinstance(error, DataInvalid)
    assert f"and not {ORIGINAL.sha256}" in error.message
    assert list(tmp_path.iterdir()) == []
    server.files["/x.bin"] = BODY
    assert fetch(server, tmp_path) == BODY


@pytest.mark.parametrize(("body", "said"), [(BODY[:-5], "299,995"), (BODY + b"x", "300,001")])
@pytest.mark.parametrize("length", [True, False])
def test_a_wrong_size_is_refused_and_nothing_kept(
    server: FileServer, tmp_path: Path, body: bytes, said: str, length: bool
) -> None:
    server.files["/x.bin"], server.length = body, length
    error = failure(server, tmp_path)
    assert isinstance(error, DataInvalid)
    assert f"has {said} bytes and not 300,000" in error.message
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
    assert "go on" not in error.remedy


def test_a_refusal_keeps_what_has_arrived(server: FileServer, tmp_path: Path) -> None:
    interrupted(server, tmp_path)
    server.status = 503
    failure(server, tmp_path)
    server.status = 200
    assert fetch(server, tmp_path) == BODY
    assert server.asked[-1] == "bytes=120000-"


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


def test_a_server_that_only_drips_is_given_up(server: FileServer, tmp_path: Path) -> None:
    clock = itertools.count(step=400.0)  # reads as if every piece took so long
    with pytest.raises(DataMissing, match="less than 1,000 bytes per second arrive"):
        download(
            ORIGINAL, f"{server.url}/x.bin", tmp_path / "x.bin", clock=lambda: float(next(clock))
        )
    assert (tmp_path / "x.bin.part").exists()
    assert fetch(server, tmp_path) == BODY


def test_compression_that_was_not_asked_for_is_refused(server: FileServer, tmp_path: Path) -> None:
    server.headers = {"Content-Encoding": "gzip"}
    assert "sends it compressed" in failure(server, tmp_path).message


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
    assert "secret" not in (tmp_path / "x.bin.part.from").read_text()


def test_a_folder_that_is_not_there(server: FileServer, tmp_path: Path) -> None:
    with pytest.raises(DataMissing, match=r"Cannot write .*No such file"):
        download(ORIGINAL, f"{server.url}/x.bin", tmp_path / "no" / "x.bin")


def test_a_full_disk_keeps_what_fits(server: FileServer, tmp_path: Path) -> None:
    """A limit on the size of files stands in for a full disk."""
    ended = subprocess.run(
        [sys.executable, "-c", SMALL, f"{server.url}/x.bin", str(tmp_path / "x.bin")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("DataMissing: Cannot write ")
    assert "it resumes where it stopped" in ended.stdout
    assert not (tmp_path / "x.bin").exists()
    assert fetch(server, tmp_path) == BODY
    assert server.asked == [None, "bytes=150000-"]


SMALL = """
import resource, sys
from pathlib import Path
from harness.datasets.catalogue import Original
from harness.datasets.fetch import download
from harness.errors import DataMissing

resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, resource.RLIM_INFINITY))
original = Original("x.bin", "", 300_000, None, 400_000)
try:
    download(original, sys.argv[1], Path(sys.argv[2]))
except DataMissing as error:
    print(f"DataMissing: {error}")
"""
