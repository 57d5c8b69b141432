"""Batches of OpenAI, and of providers whose batches are similar.

A batch has a file of requests, and up to two files of results. Sources:
https://developers.openai.com/api/docs/guides/batch,
https://learn.microsoft.com/en-us/azure/ai-foundry/openai/how-to/batch,
https://console.groq.com/docs/batch, https://docs.mistral.ai/capabilities/batch,
https://docs.together.ai/docs/batch-inference.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec
from typing_extensions import override

from harness.backends.openai import OpenAIBackend
from harness.errors import TransientError
from harness.plugins.batches.provider import (
    BatchLimits,
    BatchState,
    FileBatchProvider,
    I,
    Outcome,
    UploadedFile,
    moment,
    older,
)
from harness.ports import Backend
from harness.records import Request

TAG = "harness"  # key of the batch's metadata
STATUSES = {"success": "completed", "timeout_exceeded": "expired"}  # OpenAI's, by Mistral's
ENDED = frozenset({"completed", "failed", "expired", "cancelled"})
NOT_EXECUTED = frozenset({"batch_expired", "batch_cancelled"})


@dataclass(frozen=True, slots=True)
class BatchRules:
    """The limits of a provider's batches, and how they differ from OpenAI's.

    Args:
        form: The provider whose paths and field names apply. Mistral's differ from OpenAI's.
            Together has no metadata, so a batch is found by its file's name.
        requests, bytes: The maximum numbers of requests and bytes in one batch.
        window_h: The hours within which a batch should end.
        urls: For each API path that batches support, the URL in the file's lines.
        keep_days: After how many days the provider should delete the file of requests, if ever.
    """

    form: Literal["openai", "mistral", "together"] = "openai"
    requests: int = 50_000
    bytes: int = 200_000_000
    window_h: int = 24
    urls: Mapping[str, str] = field(
        default_factory=lambda: {
            path: f"/v1{path}" for path in ("/chat/completions", "/completions", "/responses")
        }
    )
    keep_days: int | None = None

    @property
    def limits(self) -> BatchLimits:
        return BatchLimits(self.requests, self.bytes, self.window_h)


class _Response(msgspec.Struct):
    status_code: int = 200
    body: msgspec.Raw = msgspec.Raw(b"null")


class _Error(msgspec.Struct):
    code: str | int | None = None
    message: str | None = None


class _Result(msgspec.Struct):
    custom_id: str
    response: _Response | None = None
    error: _Error | str | None = None


RULES = msgspec.yaml.decode(
    Path(__file__).with_name("openai_rules.yaml").read_bytes(), type=dict[str, BatchRules]
)
"""The rules of the backend's presets, by name."""


def openai_provider(backend: Backend) -> OpenAIBatchProvider | None:
    """Return the batches of a preset's provider, or None if it is not known to batch such calls.

    A server that is no preset's may have OpenAI's batches.
    """
    if not isinstance(backend, OpenAIBackend):
        return None
    name = backend.preset_name
    rules = RULES.get(name) if name else BatchRules()
    if rules is None or backend.path not in rules.urls:
        return None
    return OpenAIBatchProvider(backend, rules)


class OpenAIBatchProvider(FileBatchProvider[OpenAIBackend]):
    """OpenAI's batches, or those of another provider.

    Args:
        backend: The backend.
        rules: The rules of the provider's batches.
    """

    def __init__(self, backend: OpenAIBackend, rules: BatchRules) -> None:
        super().__init__(backend, rules.limits)
        self._rules = rules

    @override
    async def upload_batch(self, tag: str, entries: Sequence[tuple[str, Request]]) -> str:
        name, rules = f"{tag}.jsonl", self._rules
        files = {"file": (name, self.content(entries), "application/jsonl")}
        form = {"purpose": "batch"}
        if rules.form == "together":
            form = {"purpose": "batch-api", "file_name": name, "file_type": "jsonl"}
        if rules.keep_days is not None:
            form["expires_after[anchor]"] = "created_at"
            form["expires_after[seconds]"] = str(rules.keep_days * 86_400)
        path = "/files/upload" if rules.form == "together" else "/files"
        file = await self.json("POST", path, _file, files=files, data=form)
        return await self.processed(file, f"/files/{file.id}", _file)

    @override
    async def create_batch(
        self, tag: str, entries: Sequence[tuple[str, Request]], file: str | None
    ) -> str:
        model, rules = entries[0][1].model, self._rules
        given: dict[str, Any] = {"endpoint": rules.urls[self.backend.path]}
        if rules.form == "mistral":
            given |= {"input_files": [file], "model": model, "timeout_hours": rules.window_h}
        else:
            given |= {"input_file_id": file, "completion_window": f"{rules.window_h}h"}
        if rules.form != "together":
            given["metadata"] = {TAG: tag}
        batch = await self.json("POST", self._batches_path, _Batch, json=given, model=model)
        return batch.id

    @override
    async def find_batch(
        self, tag: str, since: float, requests: int, others: Collection[str]
    ) -> str | None:
        """Return the id of the batch with this tag (Together: with this tag's file), or None."""
        named = self._rules.form != "together"
        file = None if named else await self.batch_file(tag)
        if not named and file is None:
            return None
        async for page in self._listed(self._batches_path, _Batch):
            for batch in page:
                if batch.tag == tag if named else batch.file == file:
                    return batch.id
            if older([batch.created for batch in page], since):
                break
        return None

    @override
    async def batch_file(self, tag: str) -> str | None:
        async for page in self._listed("/files", _file):
            for file in page:
                if file.name == f"{tag}.jsonl":
                    return file.id
        return None

    @override
    async def delete_file(self, file: str) -> None:
        await self.json("DELETE", f"/files/{file}")

    @override
    async def poll_batch(self, batch: str) -> BatchState:
        found = await self.json("GET", f"{self._batches_path}/{batch}", _Batch)
        failed = found.status == "failed" and not found.results
        return BatchState(
            ended=found.status in ENDED,
            done=found.done,
            failed=found.failed,
            cancelled=found.status == "cancelled",
            expired=found.status == "expired",
            problem=("; ".join(found.problems[:3]) or "no explanation") if failed else "",
            too_many_tokens=found.too_many_tokens,
        )

    @override
    async def batch_outcomes(
        self, batch: str, request: Callable[[str], Request]
    ) -> AsyncIterator[tuple[str, Outcome]]:
        def read(result: _Result) -> tuple[str, Outcome]:
            return result.custom_id, self._outcome(result, request(result.custom_id))

        found = await self.json("GET", f"{self._batches_path}/{batch}", _Batch)
        for file in found.results:
            async for one in self.results(f"/files/{file}/content", _Result, read):
                yield one

    @override
    async def cancel_batch(self, batch: str) -> None:
        await self.json("POST", f"{self._batches_path}/{batch}/cancel")

    def line(self, name: str, request: Request) -> Mapping[str, Any]:
        line = {"custom_id": name, "body": self.backend.body(request)}
        if self._rules.form == "openai":
            line |= {"method": "POST", "url": self._rules.urls[self.backend.path]}
        return line

    @property
    def _batches_path(self) -> str:
        return "/batch/jobs" if self._rules.form == "mistral" else "/batches"

    def _listed(self, path: str, read: Callable[[Any], I]) -> AsyncIterator[list[I]]:
        return self.listed(path, read, "page" if self._rules.form == "mistral" else "after")

    def _outcome(self, result: _Result, request: Request) -> Outcome:
        response, error = result.response, result.error or _Error()
        if response is None:
            error = _Error(message=error) if isinstance(error, str) else error
            said = f"The request failed in its batch: {error.message or error.code}"
            return None if error.code in NOT_EXECUTED else TransientError(said)
        body = bytes(response.body)
        if response.status_code != 200:
            return self.client.entry_error(response.status_code, body, request.model)
        return self.outcome(body, request)


def _file(given: Any) -> UploadedFile:
    return UploadedFile(str(given["id"]), str(given.get("filename")), str(given.get("status")))


class _Batch:
    """A batch, with the field names of OpenAI, Mistral or Together."""

    def __init__(self, given: dict[str, Any]) -> None:
        given = given.get("job") or given  # Together's answer to its creation
        counts, errors = given.get("request_counts") or {}, given.get("errors") or []
        status = str(given["status"]).lower()
        self.id = str(given["id"])
        self.status = STATUSES.get(status, status)
        self.tag = (given.get("metadata") or {}).get(TAG)
        self.file = given.get("input_file_id")
        self.created = moment(given.get("created_at"))
        self.done = int(counts.get("completed") or given.get("succeeded_requests") or 0)
        self.failed = int(counts.get("failed") or given.get("failed_requests") or 0)
        ids = (
            given.get(n) for n in ("output_file_id", "error_file_id", "output_file", "error_file")
        )
        self.results = [str(file) for file in ids if file]
        listed = errors.get("data") or [] if isinstance(errors, dict) else errors
        told = [one.get("message") or one.get("code") for one in listed] + [given.get("error")]
        self.problems = [str(one) for one in told if one]
        self.too_many_tokens = any(one.get("code") == "token_limit_exceeded" for one in listed)
