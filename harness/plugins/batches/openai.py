"""Batches of OpenAI, and of providers whose batches are similar.

A batch has a file of requests, and up to two files of results. Sources:
https://developers.openai.com/api/docs/guides/batch,
https://learn.microsoft.com/en-us/azure/ai-foundry/openai/how-to/batch,
https://console.groq.com/docs/batch, https://docs.mistral.ai/capabilities/batch,
https://docs.together.ai/docs/batch-inference.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
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
    Outcome,
    ProviderBatch,
    UploadedFile,
    moment,
)
from harness.ports import Backend
from harness.records import Request

TAG = "harness"  # key of the batch's metadata
STATUSES = {"success": "completed", "timeout_exceeded": "expired"}  # OpenAI's, by Mistral's
ENDED = frozenset({"completed", "failed", "expired", "cancelled"})
RESULT_FILES = ("output_file_id", "error_file_id", "output_file", "error_file")
NOT_EXECUTED = frozenset({"batch_expired", "batch_cancelled"})


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRules(BatchLimits):
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
    urls: Mapping[str, str] = field(
        default_factory=lambda: {
            path: f"/v1{path}" for path in ("/chat/completions", "/completions", "/responses")
        }
    )
    keep_days: int | None = None


class _Response(msgspec.Struct):
    status_code: int = 200
    body: msgspec.Raw = msgspec.Raw(b"null")


class _Error(msgspec.Struct):
    code: str | int | None = None
    message: str | None = None


class _Result(msgspec.Struct, rename={"name": "custom_id"}):
    name: str
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


class OpenAIBatchProvider(FileBatchProvider[OpenAIBackend, _Result]):
    """OpenAI's batches, or those of another provider.

    Args:
        backend: The backend.
        rules: The rules of the provider's batches.
    """

    result = _Result

    def __init__(self, backend: OpenAIBackend, rules: BatchRules) -> None:
        super().__init__(backend, rules)
        self._rules = rules
        self.batches = "/batches"
        if rules.form == "mistral":
            self.batches = "/batch/jobs"
            self.page = "page"

    @override
    async def upload_batch(self, tag: str, entries: Sequence[tuple[str, Request]]) -> str:
        name = f"{tag}{self.suffix}"
        rules = self._rules
        files = {"file": (name, self.content(entries), "application/jsonl")}
        path = self.files
        form = {"purpose": "batch"}
        if rules.form == "together":
            path = f"{self.files}/upload"
            form = {"purpose": "batch-api", "file_name": name, "file_type": "jsonl"}
        if rules.keep_days is not None:
            form["expires_after[anchor]"] = "created_at"
            form["expires_after[seconds]"] = str(rules.keep_days * 86_400)
        return await self.uploaded(path, files=files, data=form)

    @override
    async def create_batch(
        self, tag: str, entries: Sequence[tuple[str, Request]], file: str | None
    ) -> str:
        model = entries[0][1].model
        rules = self._rules
        fields: dict[str, Any] = {"endpoint": rules.urls[self.backend.path]}
        if rules.form == "mistral":
            fields |= {"input_files": [file], "model": model, "timeout_hours": rules.window_h}
        else:
            fields |= {"input_file_id": file, "completion_window": f"{rules.window_h}h"}
        if rules.form != "together":
            fields["metadata"] = {TAG: tag}
        batch = await self.json("POST", self.batches, self.read_batch, json=fields, model=model)
        return batch.id

    @override
    async def find_batch(
        self, tag: str, since: float, requests: int, others: Collection[str]
    ) -> str | None:
        if self._rules.form == "together":
            file = await self.batch_file(tag)
            if file is None:
                return None
            tag = file
        return await super().find_batch(tag, since, requests, others)

    def line(self, name: str, request: Request) -> Mapping[str, Any]:
        line = {"custom_id": name, "body": self.backend.body(request)}
        if self._rules.form == "openai":
            line |= {"method": "POST", "url": self._rules.urls[self.backend.path]}
        return line

    def outcome_of(self, result: _Result, request: Request) -> Outcome:
        response = result.response
        error = result.error or _Error()
        if response is None:
            error = _Error(message=error) if isinstance(error, str) else error
            problem = f"The request failed in its batch: {error.message or error.code}"
            return None if error.code in NOT_EXECUTED else TransientError(problem)
        body = bytes(response.body)
        if response.status_code != 200:
            return self.client.entry_error(response.status_code, body, request.model)
        return self.decoded(body, request)

    def read_file(self, data: Any) -> UploadedFile:
        return UploadedFile(str(data["id"]), str(data.get("filename")), str(data.get("status")))

    def read_batch(self, data: Any) -> ProviderBatch:
        """Return a batch, whose fields have the names of OpenAI, Mistral or Together."""
        data = data.get("job") or data  # Together's answer to its creation
        status = str(data["status"]).lower()
        status = STATUSES.get(status, status)
        files = [data.get(name) for name in RESULT_FILES]
        results = [f"{self.path_of_file(file)}/content" for file in files if file]
        errors = data.get("errors") or []
        errors = errors.get("data") or [] if isinstance(errors, dict) else errors
        problems = [error.get("message") or error.get("code") for error in errors]
        problems = [str(problem) for problem in (*problems, data.get("error")) if problem]
        failed = status == "failed" and not results
        counts = data.get("request_counts") or {}
        state = BatchState(
            ended=status in ENDED,
            done=int(counts.get("completed") or data.get("succeeded_requests") or 0),
            failed=int(counts.get("failed") or data.get("failed_requests") or 0),
            cancelled=status == "cancelled",
            expired=status == "expired",
            problem=("; ".join(problems[:3]) or "no explanation") if failed else "",
            too_many_tokens=any(error.get("code") == "token_limit_exceeded" for error in errors),
        )
        tag = (data.get("metadata") or {}).get(TAG)
        if self._rules.form == "together":
            tag = data.get("input_file_id")
        created = moment(data.get("created_at"))
        return ProviderBatch(str(data["id"]), state, created, tag=tag, results=results)
