/* The report's own data: compressed elements of the file, unpacked when they are needed. */

import type { AttemptText, Case, CaseCell, Cut, Entry, Index, Overview, Verdict } from "./model";
import { VERDICTS } from "./model";
import type { Found, Source } from "./source";
import type { State } from "./state";
import { full, wordsOf } from "./text";

const parsed = new Promise<void>((resolve) => {
  if (document.readyState !== "loading") resolve();
  else document.addEventListener("DOMContentLoaded", () => resolve(), { once: true });
});

/** The text of a data element (written by harness/plugins/report/parts.py). */
async function unpacked(name: string): Promise<string> {
  let block = document.getElementById(name);
  // While the file is still loading, the last element may be incomplete.
  if (!block?.nextSibling) {
    await parsed;
    block = document.getElementById(name);
  }
  const bytes = fromBase64(block?.textContent ?? "");
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

export const json = async <T>(name: string) => JSON.parse(await unpacked(name)) as T;

function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  const newer = Uint8Array as unknown as { fromBase64?: (text: string) => Uint8Array<ArrayBuffer> };
  return newer.fromBase64?.(text) ?? Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

/** Let the browser draw and handle keys before continuing. */
export const breathe = () => new Promise((resolve) => setTimeout(resolve, 0));

type Column = "instance" | "run" | "sample" | "round" | "last" | "outcome" | "passed";
interface Packed {
  runs: Index["runs"];
  outcomes: string[];
  rounds: number;
  labels: { name: string; groups: string[]; of: number[] }[];
  scores?: { name: string; kind: string; verdict: boolean; values: (number | null)[] }[];
  reasons?: { text: string; rows: number[] }[];
  told: Record<number, string[]>;
  instances: { name: string[]; chunk: number[]; place: number[] };
  rows: Record<Column, number[]> & { snippet: string[] };
  compared: { round: number | null } | null;
  changes: { run: number; baseline: number; better: number[]; worse: number[] }[];
}
interface PackedEntry extends Pick<Entry, "prompts" | "references"> { attempts: AttemptText[] }

const MOST_CHUNKS = 8;
const SEEN = 40; // characters of an answer that surely fit into a cell
const BEFORE = 12; // characters before a found word
const MOST_AROUND = 50_000;

export class EmbeddedSource implements Source {
  #archive = json<Packed>("index").then((packed) => new Archive(packed));

  overview() {
    return json<Overview>("overview");
  }

  async index() {
    return (await this.#archive).index;
  }

  find(state: State, tell: (found: Found) => void) {
    const search = { stopped: false };
    void this.#archive.then((archive) => archive.find(state, tell, search));
    return () => { search.stopped = true; };
  }

  async entry(instance: string) {
    return (await this.#archive).entry(instance);
  }

  subscribe() {
    return () => undefined;
  }
}

class Archive {
  index: Index;
  #rows: Record<Column, Int32Array>;
  /** The first row of each case (an instance × sample), then one past the last. */
  #cases: Int32Array;
  /** The first case of each instance, then one past the last. */
  #first: Int32Array;
  #places: Map<string, number>;
  /** For each run that is compared, the instances on which it is better or worse. */
  #changed: { run: number; better: Set<number>; worse: Set<number> }[];
  #chunks = new Map<number, Promise<PackedEntry[]>>(); // recently used ones, oldest first
  #hits: { query: string; rows: Uint8Array } | null = null; // of the last search that ended
  /** What is around the first word that a search found in an attempt, by row. */
  #around = new Map<number, string>();

  constructor(private packed: Packed) {
    const { snippet, ...numbers } = packed.rows;
    this.#rows = Object.fromEntries(
      Object.entries(numbers).map(([name, column]) => [name, Int32Array.from(column)]),
    ) as Record<Column, Int32Array>;
    const { instance, sample } = this.#rows;
    const names = packed.instances.name;
    const cases: number[] = [];
    this.#first = new Int32Array(names.length + 1);
    for (let row = 0; row < snippet.length; row++) {
      const anew = !row || instance[row] !== instance[row - 1];
      if (anew) this.#first[instance[row]!] = cases.length;
      if (anew || sample[row] !== sample[row - 1]) cases.push(row);
    }
    this.#first[names.length] = cases.length;
    this.#cases = Int32Array.from([...cases, snippet.length]);
    this.#changed = packed.changes.map(({ run, better, worse }) => ({ run, better: new Set(better), worse: new Set(worse) }));
    this.#places = new Map(names.map((name, place) => [name, place]));
    this.index = {
      ...packed,
      scores: packed.scores ?? [],
      reasons: packed.reasons ?? [],
      samples: names.reduce((most, _, at) => Math.max(most, this.#first[at + 1]! - this.#first[at]!), 0),
      changes: packed.changes.map((one) => ({ ...one, better: one.better.length, worse: one.worse.length })),
    };
  }

  async find(state: State, tell: (found: Found) => void, search: { stopped: boolean }) {
    const words = wordsOf(state.q);
    const query = words.length ? state.q.toLowerCase() : "";
    if (!query || this.#hits?.query === query) {
      return tell(this.#chosen(state, query ? this.#hits!.rows : null, 1, false));
    }
    const hits = new Uint8Array(this.packed.rows.snippet.length);
    const { chunk, place, name } = this.packed.instances;
    const chunks = (chunk.at(-1) ?? -1) + 1;
    const inJson = new Map(words.map((word) => [word, JSON.stringify(word).slice(1, -1)]));
    this.#around.clear();
    tell(this.#chosen(state, hits, 0, true));
    let told = performance.now();
    let instance = 0;
    for (let number = 0; number < chunks; number++) {
      const text = await unpacked(`chunk-${number}`);
      if (search.stopped) return tell(this.#chosen(state, hits, number / chunks, false));
      const lower = text.toLowerCase();
      // If the JSON of a chunk does not contain a word, none of its texts does. Most chunks
      // therefore need not be parsed.
      const missing = new Set(words.filter((word) => !lower.includes(inJson.get(word)!)));
      let entries: PackedEntry[] | undefined;
      for (; instance < name.length && chunk[instance] === number; instance++) {
        const inName = name[instance]!.toLowerCase();
        const wanted = words.filter((word) => !inName.includes(word));
        if (wanted.some((word) => missing.has(word))) continue;
        entries ??= wanted.length ? (JSON.parse(text) as PackedEntry[]) : undefined;
        this.#mark(instance, entries?.[place[instance]!], wanted, hits);
      }
      if (performance.now() - told > 150) {
        tell(this.#chosen(state, hits, (number + 1) / chunks, true));
        await breathe();
        told = performance.now();
      }
    }
    this.#hits = { query, rows: hits };
    tell(this.#chosen(state, hits, 1, false));
  }

  /** Mark the attempts of an instance whose texts contain all words. Of a prompt, only the last message counts. */
  #mark(instance: number, entry: PackedEntry | undefined, words: string[], hits: Uint8Array) {
    const [from, to] = this.#rowsOf(instance);
    if (!words.length) return hits.fill(1, from, to);
    if (!entry) return;
    const lower = (texts: (Cut | undefined)[]) => texts.map((text) => full(text).toLowerCase());
    const prompts = entry.prompts.map((messages) => lower(messages.slice(-1).map(([, text]) => text)));
    const { run, sample } = this.#rows;
    let prompt: number | undefined;
    for (let row = from; row < to; row++) {
      const attempt = entry.attempts[row - from]!;
      if (row === from || run[row] !== run[row - 1] || sample[row] !== sample[row - 1]) prompt = undefined;
      prompt = attempt.prompt ?? prompt;
      const { text, reasoning, ends, error, scores = [] } = attempt;
      const same = (other: number) => other >= from && other < to && run[other] === run[row] && sample[other] === sample[row];
      // A round shows the feedback that it replies to; the last one also shows its own.
      const replied = same(row - 1) ? entry.attempts[row - 1 - from]!.feedback : undefined;
      const feedback = same(row + 1) ? undefined : attempt.feedback;
      const own = lower([text, reasoning, replied, feedback, ends, error, ...scores.flatMap((score) => [score.reason, score.details])]);
      const texts = prompt === undefined ? own : [...own, ...prompts[prompt]!];
      if (!words.every((word) => texts.some((each) => each.includes(word)))) continue;
      hits[row] = 1;
      const answer = full(text);
      const at = Math.min(...words.map((word) => own[0]!.indexOf(word)).filter((place) => place >= 0));
      if (at > SEEN && at < Infinity && this.#around.size < MOST_AROUND) this.#around.set(row, `…${answer.slice(at - BEFORE, at + SEEN)}`);
    }
  }

  #rowsOf(instance: number): [number, number] {
    return [this.#cases[this.#first[instance]!]!, this.#cases[this.#first[instance + 1]!]!];
  }

  /**
   * The cases of a state. If a link names something that does not exist (such as another report's
   * run), it matches nothing, rather than everything.
   */
  #chosen(state: State, hits: Uint8Array | null, done: number, running: boolean): Found {
    const { packed } = this;
    const rows = this.#rows;
    const runs = packed.runs.map(({ name }) => name);
    const shown = runs.map((name) => !state.run.length || state.run.includes(name));
    const counts = runs.map((name, run) => shown[run]! && (!state.where || state.where === name));
    const score = state.score ? packed.scores?.find(({ name }) => name === state.score) : null;
    const verdictOf = (row: number): number => {
      if (score === null) return rows.passed[row]!;
      return score?.verdict ? (score.values[row] ?? -1) : -1;
    };
    const valueOf = (row: number) => (score && !score.verdict ? (score.values[row] ?? null) : null);

    const tests: ((row: number) => boolean)[] = [];
    if (state.verdict) {
      const code = Number(Object.entries(VERDICTS).find(([, name]) => name === state.verdict)?.[0]);
      tests.push((row) => verdictOf(row) === code);
    }
    if (state.outcome) {
      const outcome = packed.outcomes.indexOf(state.outcome);
      tests.push((row) => rows.outcome[row] === outcome);
    }
    if (state.reason) {
      const having = new Set(packed.reasons?.find(({ text }) => text === state.reason)?.rows);
      tests.push((row) => having.has(row));
    }
    if (state.score && score === undefined) tests.push(() => false);
    if (hits) tests.push((row) => hits[row] === 1);
    const matches = (row: number) => tests.every((test) => test(row));

    const asked = state.round || String(packed.compared?.round ?? "last");
    const upTo = Number(asked);
    const any = asked === "any";
    /** The row of each run in a case: of the round asked for; -1 if there is none. */
    const cells = (one: number) => {
      const found = new Int32Array(runs.length).fill(-1);
      const matched = new Uint8Array(runs.length);
      for (let row = this.#cases[one]!; row < this.#cases[one + 1]!; row++) {
        const run = rows.run[row]!;
        if (any) {
          if (matched[run]) continue;
          matched[run] = Number(matches(row));
        } else if (asked === "last" ? !rows.last[row] : !(rows.round[row]! <= upTo)) continue;
        found[run] = row;
      }
      return found;
    };

    const ofCase: ((one: number, instance: number) => boolean)[] = [];
    for (const [name, group] of state.groups) {
      const label = packed.labels.find((each) => each.name === name);
      const number = label ? label.groups.indexOf(group) : -1;
      ofCase.push((_, instance) => number >= 0 && label!.of[instance] === number);
    }
    if (state.change) {
      const [, what, run] = /^(better|worse):(.*)$/su.exec(state.change) ?? [];
      const change = this.#changed.find((each) => runs[each.run] === run);
      ofCase.push((_, instance) => change?.[what as "better" | "worse"].has(instance) ?? false);
    }

    const found: number[] = [];
    const fails: number[] = [];
    const sorting = /^(-?)(.*)$/su.exec(state.sort)!;
    const byRun = runs.indexOf(sorting[2]!);
    const keys: number[] = [];
    let instances = 0;
    let before = -1;
    for (let one = 0; one < this.#cases.length - 1; one++) {
      const instance = rows.instance[this.#cases[one]!]!;
      if (!ofCase.every((test) => test(one, instance))) continue;
      const there = cells(one);
      let match = false;
      let failed = 0;
      let differ = false;
      let first: number | null | undefined;
      for (let run = 0; run < there.length; run++) {
        const row = there[run]!;
        if (row < 0 || !shown[run]) continue;
        const value = valueOf(row) ?? verdictOf(row);
        if (first === undefined) first = value;
        else if (first !== value) differ = true;
        if (value === 0) failed++;
        match ||= counts[run]! && matches(row);
      }
      if (!match || (state.differ && !differ)) continue;
      if (instance !== before) instances++;
      before = instance;
      found.push(one);
      fails[one] = failed;
      if (byRun >= 0) {
        const row = there[byRun]!;
        keys[one] = row < 0 ? Infinity : (valueOf(row) ?? (verdictOf(row) < 0 ? 2 : verdictOf(row)));
      }
    }
    const reverse = sorting[1] ? -1 : 1;
    if (byRun >= 0) found.sort((a, b) => reverse * (keys[a]! - keys[b]! || 0) || a - b);
    else if (sorting[2] === "fails") found.sort((a, b) => reverse * (fails[b]! - fails[a]!) || a - b);
    else if (sorting[2] === "name") {
      const collator = new Intl.Collator("en", { numeric: true });
      const order = packed.instances.name.map((name, at) => [name, at] as const);
      order.sort((a, b) => collator.compare(a[0], b[0]));
      const rank = new Int32Array(order.length);
      order.forEach(([, at], place) => (rank[at] = place));
      const of = (one: number) => rank[rows.instance[this.#cases[one]!]!]!;
      found.sort((a, b) => reverse * (of(a) - of(b)) || a - b);
    }

    const get = (at: number): Case | undefined => {
      const one = found[at];
      if (one === undefined) return undefined;
      const from = this.#cases[one]!;
      const instance = rows.instance[from]!;
      return {
        instance: packed.instances.name[instance]!,
        sample: rows.sample[from]!,
        groups: this.#groups(instance),
        changes: this.#changesOf(instance),
        cells: [...cells(one)].map((row): CaseCell | null =>
          row < 0
            ? null
            : {
                round: rows.round[row]!,
                verdict: verdictOf(row) as Verdict,
                outcome: rows.outcome[row]!,
                value: valueOf(row),
                snippet: (hits && this.#around.get(row)) ?? packed.rows.snippet[row]!,
                told: packed.told[row] ?? [],
                match: matches(row),
              },
        ),
      };
    };
    const place = (name: string, sample: number) => {
      const instance = this.#places.get(name);
      if (instance === undefined) return -1;
      return found.findIndex((one) => {
        const row = this.#cases[one]!;
        return rows.instance[row] === instance && rows.sample[row] === sample;
      });
    };
    return { cases: found.length, instances, done, running, get, place };
  }

  #changesOf(instance: number) {
    const found: Case["changes"] = this.packed.runs.map(() => null);
    for (const { run, better, worse } of this.#changed) {
      if (better.has(instance) || worse.has(instance)) found[run] = better.has(instance) ? "better" : "worse";
    }
    return found;
  }

  #groups(instance: number) {
    return this.packed.labels.map(({ groups, of }) => groups[of[instance]!] ?? null);
  }

  async entry(name: string): Promise<Entry | null> {
    const instance = this.#places.get(name);
    if (instance === undefined) return null;
    const { chunk, place } = this.packed.instances;
    const { prompts, references, attempts } = (await this.#chunk(chunk[instance]!))[place[instance]!]!;
    const [from] = this.#rowsOf(instance);
    const { run, sample, round, outcome, passed } = this.#rows;
    const joined = attempts.map((attempt, at) => ({
      ...attempt,
      run: run[from + at]!,
      sample: sample[from + at]!,
      round: round[from + at]!,
      outcome: outcome[from + at]!,
      verdict: passed[from + at]! as Verdict,
    }));
    return { prompts, references, attempts: joined, groups: this.#groups(instance) };
  }

  #chunk(number: number): Promise<PackedEntry[]> {
    const chunk = this.#chunks.get(number) ?? json<PackedEntry[]>(`chunk-${number}`);
    this.#chunks.delete(number);
    this.#chunks.set(number, chunk);
    if (this.#chunks.size > MOST_CHUNKS) this.#chunks.delete(this.#chunks.keys().next().value!);
    return chunk;
  }
}
