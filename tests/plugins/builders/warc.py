"""Writes WARC files like Common Crawl's WET files."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path


def record(number: int, kind: str, content_type: str, content: bytes) -> bytes:
    """A record of a WARC file."""
    head = [
        "WARC/1.0",
        f"WARC-Type: {kind}",
        f"WARC-Target-URI: https://example.org/{number}",
        "WARC-Date: 2026-01-02T03:04:05Z",
        f"WARC-Record-ID: <urn:uuid:00000000-0000-0000-0000-{number:012}>",
        "WARC-Identified-Content-Language: eng",
        f"Content-Type: {content_type}",
        f"Content-Length: {len(content)}",
    ]
    return "\r\n".join([*head, "", ""]).encode() + content + b"\r\n\r\n"


def write_warc(path: Path, texts: Sequence[str | bytes]) -> Path:
    """Write a record of plain text for each text, after one of HTML that is no document."""
    records = [record(0, "response", "application/http; msgtype=response", b"<p>No.</p>")]
    for number, text in enumerate(texts, start=1):
        content = text.encode() if isinstance(text, str) else text
        records.append(record(number, "conversion", "text/plain", content))
    packed = gzip.compress if path.suffix == ".gz" else bytes
    path.write_bytes(b"".join(map(packed, records)))
    return path
