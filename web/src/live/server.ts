/* What the server of `harness view` says of runs, beyond the overview and the cases. */

import { signal } from "@preact/signals";

/** A line of the list of runs (harness/view/runs.py). Times are in epoch seconds. */
export interface RunSummary {
  name: string;
  task: string;
  model: string;
  tags: string[];
  state: "running" | "stopping" | "complete" | "interrupted" | "failed" | "unreadable";
  rate: number | null;
  low: number | null;
  high: number | null;
  n: number;
  not_judged: number;
  measure: string;
  done: number | null;
  planned: number | null;
  cost_usd: number | null;
  started_at: number | null;
  line_at: number | null;
  eta_s: number | null;
  limited_by: string[];
  problem: string;
}

type Moment = [at: number, inFlight: number, waiting: number, failed: number, rateLimited: number, calls: number, cost: number];
export interface Bins {
  start: number;
  step_s: number;
  attempts: number[];
  errors: number[];
  judged: number[];
  passed: number[];
  cost_usd: number[];
  tokens: number[];
  median_s: (number | null)[];
  p95_s: (number | null)[];
}
export interface ListedCall { instance: string; sample: number; round: number; latency_s: number | null; error: string | null; ended_at: number | null }
export interface Timeline {
  run: string;
  sessions: { started_at?: number; ended_at?: number | null; ended?: string }[];
  session: number;
  bins: Bins | null;
  slowest: ListedCall[];
  failed: ListedCall[];
  status: {
    ended: string;
    began_at: number;
    budget_usd: number | null;
    spent_usd: number | null;
    cached: number;
    calls: number;
    events: [at: number, text: string][];
    traffic: Moment[];
  } | null;
}
export interface LiveRun { run: RunSummary | null; timeline: Timeline }

/** Counts the events about the page's runs. */
export const pulse = signal(0);
/** The share of the attempts that the server has indexed. */
export const indexed = signal(1);
/** Whether the server still answers. */
export const connected = signal(true);
/** The time, by which ages are told. */
export const now = signal(Date.now() / 1000);
setInterval(() => (now.value = Date.now() / 1000), 1000);

export async function asked<T>(path: string): Promise<T> {
  const reply = await fetch(path);
  if (!reply.ok) throw new Error(`The server answered ${reply.status}.`);
  return (await reply.json()) as T;
}

/** Follow a stream of events. The browser connects again after a pause. */
export function follow<T>(path: string, onChange: (data: T) => void): () => void {
  const events = new EventSource(path);
  events.addEventListener("open", () => (connected.value = true));
  events.addEventListener("error", () => (connected.value = false));
  events.addEventListener("change", (event) => onChange(JSON.parse((event as MessageEvent<string>).data) as T));
  return () => events.close();
}

export async function stopRun(name: string): Promise<string> {
  const reply = await fetch(`/api/stop?${new URLSearchParams({ run: name })}`, { method: "POST" });
  const told = await reply.text();
  return reply.ok ? "" : told;
}

export function ago(time: number | null): string {
  if (time === null) return "–";
  const past = Math.max(0, now.value - time);
  for (const [size, unit] of [[86400, "d"], [3600, "h"], [60, "min"]] as const) {
    if (past >= size) return `${Math.floor(past / size)} ${unit} ago`;
  }
  return past < 2 ? "now" : `${Math.floor(past)} s ago`;
}

export function lasting(time: number): string {
  const whole = Math.round(time);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}
