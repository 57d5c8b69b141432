/* What the page is given: the overview (harness/plugins/report/overview.py) and the attempts. */

export interface Rate { value: number | null; low: number | null; high: number | null; n: number }

export interface ScoreOfRun {
  name: string;
  kind: "check" | "judge" | "panel" | "score";
  value: number | null;
  low: number | null;
  high: number | null;
  n: number;
  missing: number;
  unit: string;
}

export interface Failure {
  reason: string;
  n: number;
  of: number; // the run's failed samples, or its failed calls
  hint: string;
  example: [instance: string, sample: number, round: number] | null;
  alone: boolean; // whether the example failed for this reason alone
  filter: Record<string, string>;
}

interface Times { median: number; p95: number }

/** What the verdicts are without the judges that were not validated. */
interface WithoutJudges { judges: string[]; value: number | null; failed: number; alone: number }

export interface RunOverview {
  name: string;
  full_name: string;
  task: string;
  model: string;
  marks: string[];
  recorded: boolean;
  samples: number;
  planned: number | null;
  attempts: number;
  included: number; // attempts in this page
  rate: Rate | null;
  measure: string;
  unit: string;
  scores: ScoreOfRun[];
  failures: Failure[];
  n_failed: number;
  n_failed_calls: number;
  without: WithoutJudges | null;
  not_judged: number;
  outcomes: Record<string, number>;
  cost_usd: number | null;
  computed_usd: number;
  cost_per_solved_usd: number | null;
  latency_s: Times | null; // of a call
  sample_s: Times | null; // of a sample's calls in all its rounds
  calls: number;
}

export interface Cell { text: string; sort?: number | string | null; href?: string; title?: string; style?: string }
export interface TableRow { cells: Cell[]; marks?: string[] }
export interface Table {
  kind: "table";
  title: string;
  columns: { heading: string; over?: string; numeric?: boolean }[];
  rows: TableRow[];
  names: number;
  notes?: string[];
  footer?: TableRow | null;
  headless?: boolean;
  folded?: boolean;
}
export interface Figure {
  kind: "figure";
  name: string;
  title: string;
  caption: string;
  chart: object;
  table: Table;
}
export interface Note { kind: "note"; text: string }
export type Part = Table | Figure | Note;

export interface Change {
  run: string;
  difference: number | null;
  low: number | null;
  high: number | null;
  p: number | null;
  p_adjusted: number | null;
  better: number;
  worse: number;
  n: number;
}

export interface Overview {
  title: string;
  made_at: string;
  live: boolean;
  digits: number; // decimals of every percentage
  answer: { sentence: string; support: string[] };
  marks: { text: string; runs: string[]; note: string }[];
  warnings: string[];
  prefix: string; // of the runs' names, which is cut
  runs: RunOverview[];
  differences: Table | null;
  comparison: { baseline: string; score: string; unit: string; round: number | null; rows: Change[]; notes: string[] } | null;
  sections: { id: string; title: string; parts: Part[] }[];
  judges: Record<string, string>; // whether each was validated, in words
  groups: Record<string, Record<string, string>>;
  method: string[];
  provenance: Table[];
}

/** What the grid offers: columns, filters and their choices. */
export interface Index {
  runs: { name: string; marks: string[]; recorded: boolean; judges?: Record<string, string> }[];
  outcomes: string[];
  labels: { name: string; groups: string[] }[];
  scores: { name: string; kind: string; verdict: boolean }[];
  reasons: { text: string }[];
  rounds: number;
  samples: number;
  changes: { run: number; baseline: number; better: number; worse: number }[];
  compared: { round: number | null } | null;
}

/** Passed, failed, not judged. */
export type Verdict = 1 | 0 | -1;
export const VERDICTS = { 1: "passed", 0: "failed", "-1": "not judged" } as const;
export const SIGNS = { 1: "✓", 0: "✗", "-1": "?" } as const;
/** The name of a verdict's class. */
export const kindOf = (verdict: Verdict) => VERDICTS[verdict].replace(" ", "-");

export interface CaseCell {
  round: number;
  verdict: Verdict;
  outcome: number;
  value: number | null;
  snippet: string;
  told: string[]; // why the attempt failed
  match: boolean;
}
/** An instance × sample, with an attempt of each run, and whether each is better or worse than the baseline on the instance. */
export interface Case { instance: string; sample: number; groups: (string | null)[]; cells: (CaseCell | null)[]; changes: ("better" | "worse" | null)[] }

/** A text, or the beginning of a long one. */
export type Cut = string | { text: string; length: number };
export type Constraint = [text: Cut, passed: boolean | null, observed: Cut, target: Cut, votes: string];

export interface Score {
  name: string;
  value: number | boolean | null;
  passed?: boolean;
  reason?: Cut;
  constraints?: Constraint[];
  details?: Cut;
}

export interface AttemptText {
  turns?: number; // of the user, in a conversation: rounds are then turns
  /** Whether a model wrote what the user says next, or with which it ends the conversation. */
  played?: boolean;
  ends?: Cut;
  text?: Cut;
  reasoning?: Cut;
  feedback?: Cut;
  error?: Cut;
  prompt?: number;
  scores?: Score[];
  /** What judges replied, each reply with the criterion that it is about. */
  judges?: { name: string; replies: [about: string, reply: Cut][]; outcome?: string; error?: Cut }[];
  extraction?: Cut;
  extracted?: Cut;
  request?: Cut; // what was sent with the prompt
  finish?: string;
  call?: string;
  usage?: Record<"input_tokens" | "output_tokens" | "cached_input_tokens" | "reasoning_tokens", number>;
  cost?: number;
  latency?: number;
  cached?: boolean;
}
export interface Attempt extends AttemptText { run: number; sample: number; round: number; outcome: number; verdict: Verdict }
export type Message = [role: string, text: Cut];

/** The messages that ask, without those before, such as few-shot examples. */
export const asked = (messages: Message[]) => messages.filter(([role], at) => role === "system" || at === messages.length - 1);

export interface Entry {
  prompts: Message[][];
  references?: Cut[];
  attempts: Attempt[];
  groups: (string | null)[];
}
