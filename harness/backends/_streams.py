"""Reads the messages that Anthropic's Messages API streams as server-sent events.

Source: https://platform.claude.com/docs/en/build-with-claude/streaming.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

LONGEST_UNSTREAMED = 21_333
"""The most output tokens for which an answer takes less than ten minutes, by Anthropic's estimate.

Longer answers must be streamed. Otherwise the connection may be closed before they are complete.
"""

_DELTAS = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
    "input_json_delta": "partial_json",
}


def streamed(stream: bytes) -> tuple[dict[str, Any], str]:
    """Return the message in a stream, as far as received, and how the stream ends.

    The end is the type of the last event, ``message_stop`` or ``error`` (the message then has the
    key ``error``), or "" if the stream breaks off before it.

    Raises:
        MsgspecError: If an event is not JSON.
        LookupError: If an event lacks a field.
    """
    message: dict[str, Any] = {}
    for event in _events(stream):
        match kind := event["type"]:
            case "message_start":
                message = event["message"]
            case "content_block_start":
                message["content"].append(event["content_block"])
            case "content_block_delta":
                delta, block = event["delta"], message["content"][event["index"]]
                if field := _DELTAS.get(delta["type"]):
                    block[field] = block.get(field, "") + delta[field]
            case "message_delta":
                message |= event["delta"]
                message["usage"] = message["usage"] | (event.get("usage") or {})
            case "error":
                return message | {"error": event["error"]}, kind
            case "message_stop":
                return message, kind
    return message, ""


def text_so_far(stream: bytes) -> str:
    """Return the text of the answer in a stream that has broken off ("" if it is malformed)."""
    try:
        message, _ = streamed(stream)
        return "".join(block.get("text", "") for block in message.get("content", ()))
    except (msgspec.MsgspecError, LookupError, TypeError, AttributeError):
        return ""


def _events(stream: bytes) -> Iterator[dict[str, Any]]:
    decoder = msgspec.json.Decoder(dict[str, Any])
    for line in stream.splitlines(keepends=True):
        if line.startswith(b"data:") and line.endswith(b"\n"):
            yield decoder.decode(line.removeprefix(b"data:").strip())
