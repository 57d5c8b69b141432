"""The OpenTelemetry observer, read back with the SDK's in-memory exporter.

Skipped without the SDK; scripts/test-exchange installs it.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import harness
from harness.plugin_loader import kind
from harness.plugins.mock.server import MockServer

trace = pytest.importorskip("opentelemetry.trace")
sdk = pytest.importorskip("opentelemetry.sdk.trace")
export = pytest.importorskip("opentelemetry.sdk.trace.export")
memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
SpanKind, StatusCode = trace.SpanKind, trace.StatusCode

EXPORTER = memory.InMemorySpanExporter()


@pytest.fixture(scope="module", autouse=True)
def _provider() -> None:
    provider = sdk.TracerProvider()
    provider.add_span_processor(export.SimpleSpanProcessor(EXPORTER))
    trace.set_tracer_provider(provider)  # as a program does; it can be set only once


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("RUNS", "CACHE", "DATA"):
        monkeypatch.setenv(f"HARNESS_{name}_DIR", str(tmp_path / name.lower()))
    monkeypatch.setenv("HARNESS_OBSERVERS", "otel")
    monkeypatch.setenv("OPENAI_API_KEY", "k" * 20)
    EXPORTER.clear()


def spans(server: MockServer, name: str = "r", **changes: Any) -> tuple[Any, list[Any]]:
    """The span of a run's session, and those of its attempts."""
    tree = {
        "task": {"name": "last_letter", "n": 2},
        "model": {"backend": "openai", "name": "gpt-4o-mini", "base_url": f"{server.url}/v1"},
        "decoding": {"temperature": 0.5, "max_tokens": 50, "stop": ["END"]},
        "limit": 4,
        **changes,
    }
    harness.run(tree, name=name, progress=False)
    *attempts, session = EXPORTER.get_finished_spans()
    EXPORTER.clear()
    return session, attempts


def test_a_run_is_a_trace_named_by_the_conventions(mock_server: MockServer) -> None:
    session, attempts = spans(mock_server)
    assert session.name == "evaluate last_letter"
    assert session.parent is None
    assert session.attributes["harness.ended"] == "finished"
    assert session.attributes["harness.samples"] == len(attempts)
    usage = Counter[str]()
    for span in attempts:
        assert span.parent.span_id == session.context.span_id
        assert (span.name, span.kind) == ("chat gpt-4o-mini", SpanKind.CLIENT)
        assert span.start_time <= span.end_time
        found = dict(span.attributes)
        assert found["gen_ai.operation.name"] == "chat"
        assert found["gen_ai.provider.name"] == "openai"
        assert found["gen_ai.request.model"] == "gpt-4o-mini"
        assert found["gen_ai.request.temperature"] == 0.5
        assert found["gen_ai.request.max_tokens"] == 50
        assert found["gen_ai.request.stop_sequences"] == ("END",)
        assert found["gen_ai.response.finish_reasons"] == ("stop",)
        assert found["server.address"] == "127.0.0.1"
        assert not [key for key in found if "messages" in key], "content is not sent by default"
        usage["in"] += found["gen_ai.usage.input_tokens"]
        labels = set()
        for event in span.events:
            assert event.name == "gen_ai.evaluation.result"
            assert "gen_ai.evaluation.explanation" not in event.attributes
            assert isinstance(event.attributes["gen_ai.evaluation.score.value"], float)
            labels.add(event.attributes.get("gen_ai.evaluation.score.label"))
        assert ("fail" not in labels) == found["harness.passed"]
    metrics = json.loads(Path("runs/r/metrics.json").read_text())
    assert usage["in"] == metrics["usage"]["input_tokens"]
    assert session.attributes["harness.pass_rate"] == metrics["overall"]["pass_rate"]


def test_texts_are_sent_if_the_user_allows_it(
    mock_server: MockServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_OBSERVE_CONTENT", "true")
    _, attempts = spans(mock_server, limit=1)
    [asked] = json.loads(attempts[0].attributes["gen_ai.input.messages"])
    [said] = json.loads(attempts[0].attributes["gen_ai.output.messages"])
    assert asked["role"] == "user"
    assert asked["parts"][0]["content"]
    assert said["parts"][0]["content"]
    assert said["finish_reason"] == "stop"


def test_cached_attempts_have_no_usage_and_failed_calls_are_errors(mock_server: MockServer) -> None:
    spans(mock_server)
    _, attempts = spans(mock_server, name="again")
    assert all(span.attributes["harness.cached"] for span in attempts)
    assert not any("gen_ai.usage.input_tokens" in span.attributes for span in attempts)


def test_the_observer_fits_its_interface() -> None:
    assert kind("observers").build("otel", {}).attempt
