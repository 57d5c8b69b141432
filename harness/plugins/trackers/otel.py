"""Sends runs as OpenTelemetry traces, named by the semantic conventions for generative AI.

Each session of a run is a trace, with a span for the session and, below it, one per attempt.
"""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from harness.errors import import_extra
from harness.plugin import Observer
from harness.records import OUTCOMES_WITHOUT_REPLY, Attempt, ObservedRun, Score

NANOSECONDS = 1_000_000_000
REQUEST = ("temperature", "top_p", "max_tokens")  # decoding parameters with an attribute


class OpenTelemetry(Observer):
    """Sends each session of a run as an OpenTelemetry trace.

    Spans go to the program's global tracer provider or, without one, by OTLP over HTTP to
    ``OTEL_EXPORTER_OTLP_ENDPOINT``. Prompts, answers and the reasons for scores are included only
    if ``content`` is true.
    """

    def __init__(self, *, content: bool = False) -> None:
        self._content = content
        self._api = import_extra("opentelemetry.trace", "otel")
        self._sdk = import_extra("opentelemetry.sdk.trace", "otel")
        self._otlp = import_extra("opentelemetry.exporter.otlp.proto.http.trace_exporter", "otel")
        self._provider: Any = None  # ours; None if the program has set its own
        self._common: dict[str, Any] = {}  # attributes of every span

    def run_begun(self, run: ObservedRun) -> None:
        """Start the session's span."""
        provider = self._api.get_tracer_provider()
        if not isinstance(provider, self._sdk.TracerProvider):
            provider = self._provider = self._new_provider()
        address = urlsplit(run.endpoint)
        self._common = {
            "gen_ai.provider.name": run.backend,
            "gen_ai.request.model": run.model or run.backend,
            "harness.run": run.name,
            "harness.simulated": run.simulated,
        }
        if address.hostname:
            default_port = 443 if address.scheme == "https" else 80
            self._common["server.address"] = address.hostname
            self._common["server.port"] = address.port or default_port
        self._tracer = provider.get_tracer("harness", run.version)
        self._session = self._tracer.start_span(
            f"evaluate {run.task}",
            attributes={**self._common, "harness.task": run.task, "harness.engine.id": run.id},
        )
        self._context = self._api.set_span_in_context(self._session)

    def attempt(self, attempt: Attempt) -> None:
        """Record an attempt's span, with an event for each score."""
        span = self._tracer.start_span(
            f"chat {self._common['gen_ai.request.model']}",
            context=self._context,
            kind=self._api.SpanKind.CLIENT,
            start_time=int(attempt.started_at * NANOSECONDS),
            attributes=self._common | _attributes(attempt) | self._texts(attempt),
        )
        ended = int(max(attempt.started_at, attempt.ended_at) * NANOSECONDS)
        for name, score in attempt.scores.items():
            span.add_event("gen_ai.evaluation.result", self._evaluation(name, score), ended)
        if attempt.outcome in OUTCOMES_WITHOUT_REPLY:
            span.set_status(self._api.StatusCode.ERROR, _error_type(attempt))
        span.end(ended)

    def run_ended(self, ended: str, metrics: Mapping[str, Any]) -> None:
        """End the session's span with the run's totals."""
        overall = metrics.get("overall", {})
        attributes = {
            "harness.ended": ended,
            "harness.pass_rate": overall.get("pass_rate"),
            "harness.samples": metrics.get("n_samples"),
            "harness.cost_usd": metrics.get("cost_usd"),
        }
        self._session.set_attributes({key: v for key, v in attributes.items() if v is not None})
        if ended == "failed":
            self._session.set_status(self._api.StatusCode.ERROR, ended)
        self._session.end()
        if self._provider is not None:
            self._provider.shutdown()

    def _new_provider(self) -> Any:
        resources = import_extra("opentelemetry.sdk.resources", "otel")
        export = import_extra("opentelemetry.sdk.trace.export", "otel")
        resource = resources.Resource.create()  # reads OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES
        if str(resource.attributes["service.name"]).startswith("unknown_service"):
            resource = resource.merge(resources.Resource({"service.name": "harness"}))
        provider = self._sdk.TracerProvider(resource=resource)
        provider.add_span_processor(export.BatchSpanProcessor(self._otlp.OTLPSpanExporter()))
        return provider

    def _evaluation(self, name: str, score: Score) -> dict[str, Any]:
        label = {True: "pass", False: "fail", None: None}[score.passed]
        attributes = {
            "gen_ai.evaluation.name": name,
            "gen_ai.evaluation.score.value": None if score.value is None else float(score.value),
            "gen_ai.evaluation.score.label": label,
            "gen_ai.evaluation.explanation": score.reason if self._content else None,
        }
        return {key: value for key, value in attributes.items() if value not in (None, "")}

    def _texts(self, attempt: Attempt) -> dict[str, str]:
        """Return an attempt's prompt and answer as attributes, or {} if texts must not be sent."""
        if not self._content:
            return {}
        prompt = [_message(message) for message in attempt.request.get("messages", ())]
        attributes = {"gen_ai.input.messages": json.dumps(prompt)} if prompt else {}
        if attempt.text is not None:
            answer = {"role": "assistant", "content": attempt.text}
            output = _message(answer) | {"finish_reason": attempt.finish_reason or ""}
            attributes["gen_ai.output.messages"] = json.dumps([output])
        return attributes


def _message(message: Any) -> dict[str, Any]:
    if isinstance(message, Mapping):
        role = message["role"]
        content = message["content"]
    else:
        role = message.role
        content = message.content
    return {"role": role, "parts": [{"type": "text", "content": content}]}


def _error_type(attempt: Attempt) -> str:
    """Return the name of the class of the error that ended a call, or ``_OTHER`` if unknown."""
    return (attempt.error or "").partition(":")[0] or "_OTHER"


def _attributes(attempt: Attempt) -> dict[str, Any]:
    decoding = attempt.request.get("decoding", {})
    attributes = {
        "gen_ai.operation.name": "chat",
        **{f"gen_ai.request.{name}": decoding.get(name) for name in REQUEST},
        "gen_ai.request.stop_sequences": list(decoding.get("stop", ())) or None,
        "gen_ai.request.seed": attempt.request.get("seed"),
        "harness.instance": attempt.instance,
        "harness.sample": attempt.sample,
        "harness.round": attempt.round,
        "harness.outcome": attempt.outcome,
        "harness.passed": attempt.passed,
        "harness.cached": attempt.cached,
        "harness.call_id": attempt.call_id,
    }
    if attempt.finish_reason:
        attributes["gen_ai.response.finish_reasons"] = [attempt.finish_reason]
    if attempt.outcome in OUTCOMES_WITHOUT_REPLY:
        attributes["error.type"] = _error_type(attempt)
    if attempt.usage is not None and not attempt.cached:
        usage = attempt.usage
        attributes |= {
            "gen_ai.usage.input_tokens": usage.input_tokens,
            "gen_ai.usage.output_tokens": usage.output_tokens,
            "gen_ai.usage.cache_read.input_tokens": usage.cached_input_tokens,
            "gen_ai.usage.cache_creation.input_tokens": usage.cache_write_tokens,
            "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens,
            "harness.cost_usd": attempt.cost_usd,
        }
    return {key: value for key, value in attributes.items() if value is not None}
