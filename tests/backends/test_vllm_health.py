"""What a server says of itself, and one that says nothing."""

from __future__ import annotations

import errno
import socket

import pytest

from harness.backends._server_process import free_port
from harness.backends._vllm_health import Health, _no_file_left
from harness.errors import FatalCallError
from harness.mock import MockServer
from tests.backends.answering import answering


async def test_one_that_is_there_is_well_and_says_what_it_serves() -> None:
    with MockServer(models=["tiny", "other"], api_key="sk-1") as server:
        health = Health(server.base_url, "sk-1")
        assert await health.well()
        assert await health.lists("tiny")
        with pytest.raises(FatalCallError, match="serves 'tiny', 'other', and no model 'big'"):
            await health.lists("big")
        stranger = Health(server.base_url, remedy="Name the key.")
        with pytest.raises(FatalCallError, match=r"answered 401. Name the key"):
            await stranger.lists("tiny")
        for one in (health, stranger):
            await one.aclose()


async def test_one_that_is_away_or_silent_is_not_well() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        for port in (free_port(), silent.getsockname()[1]):
            health = Health(f"http://127.0.0.1:{port}/v1", patience_s=0.2)
            assert not await health.well()
            assert not await health.lists("tiny")
            await health.aclose()


@pytest.mark.parametrize("body", ["{}", "[]", "nothing", '{"data": 3}', '{"data": [{"id": 3}]}'])
async def test_a_list_that_is_none_says_nothing(body: str) -> None:
    with answering(body) as (url, _):
        health = Health(url)
        assert await health.well()
        assert not await health.lists("tiny")
        await health.aclose()


def test_too_many_open_files_are_no_fault_of_the_server() -> None:
    refused = ConnectionError("all attempts failed")
    refused.__cause__ = OSError(errno.EMFILE, "Too many open files")
    assert _no_file_left(refused)
    assert not _no_file_left(ConnectionRefusedError(errno.ECONNREFUSED, "refused"))
