"""Hostile replies are read in linear time."""

import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from harness.errors import Unparseable
from harness.plugins.short_answers.final_numbers import read_number
from harness.plugins.short_answers.json_objects import json_object
from tests.scoring.test_conclusions import PIECES

REMARKS = [
    "x = 5, ",
    "x = 5\n",
    "Check: 2*3 = 5 ",
    "5\n\nCheck: 3 = 5\n",
    "at x = 5 ",
    "2·3+",
    "~~1",
]
REMARKS += [
    "so he saves 5, ",
    "in 5 years it will be 5 ",
    "but the question says ",
    "y = 1. ",
    "oops, ",
]


def read_last(text: str) -> object:
    return read_number(text, "last")


@pytest.mark.timed
@pytest.mark.parametrize("piece", [*PIECES, *REMARKS])
@pytest.mark.parametrize("read", [json_object, read_last])
def test_hostile_text_takes_time_in_proportion(read: Callable[[str], object], piece: str) -> None:
    started = time.process_time()
    with suppress(Unparseable):
        read((piece * 50_000)[:50_000])
    assert time.process_time() - started < 3
