/* Where the page's data come from: the file itself, or the server of `harness view`. */

import type { Case, Entry, Index, Overview } from "./model";
import { parameters, type State } from "./state";

/** The cases that a state selects. They may still be growing in number. */
export interface Found {
  cases: number;
  instances: number;
  /** Share of the texts that were searched; below 1 with `running` false if it was cancelled. */
  done: number;
  running: boolean;
  /** A case; undefined while it is on its way, which `tell` announces. */
  get(at: number): Case | undefined;
  /** The place of a case among the found ones; -1 if it is not, or not known to be, among them. */
  place(instance: string, sample: number): number;
}

export interface Source {
  overview(): Promise<Overview>;
  index(): Promise<Index>;
  /** Find the cases of a state, and tell of them whenever there are more. Returns how to stop it. */
  find(state: State, tell: (found: Found) => void): () => void;
  entry(instance: string): Promise<Entry | null>;
  subscribe(onChange: () => void): () => void;
}

const PAGE = 200;

export class ServerSource implements Source {
  overview() {
    return asked<Overview>("overview");
  }

  index() {
    return asked<Index>("index");
  }

  find(state: State, tell: (found: Found) => void) {
    const pages = new Map<number, Case[] | null>();
    let stopped = false;
    let found: Found = { cases: 0, instances: 0, done: 0, running: true, get, place };
    function get(at: number) {
      const number = Math.floor(at / PAGE);
      if (!pages.has(number)) void load(number);
      return pages.get(number)?.[at % PAGE];
    }
    function place(instance: string, sample: number) {
      for (const [number, page] of pages) {
        const at = page?.findIndex((one) => one.instance === instance && one.sample === sample) ?? -1;
        if (at >= 0) return number * PAGE + at;
      }
      return -1;
    }
    async function load(number: number) {
      pages.set(number, null);
      const asking = parameters({ ...state, open: null });
      asking.set("from", String(number * PAGE));
      asking.set("to", String((number + 1) * PAGE));
      const { cases, instances, page } = await asked<{ cases: number; instances: number; page: Case[] }>(`cases?${asking}`);
      pages.set(number, page);
      found = { ...found, cases, instances, done: 1, running: false };
      if (!stopped) tell(found);
    }
    void load(0);
    return () => { stopped = true; };
  }

  async entry(instance: string) {
    const reply = await fetch(`api/entry?${new URLSearchParams({ instance })}`);
    return reply.status === 404 ? null : ((await reply.json()) as Entry);
  }

  subscribe(onChange: () => void) {
    const events = new EventSource("api/events");
    events.addEventListener("change", onChange);
    return () => events.close();
  }
}

async function asked<T>(path: string): Promise<T> {
  const reply = await fetch(`api/${path}`);
  if (!reply.ok) throw new Error(`The server answered ${reply.status}.`);
  return (await reply.json()) as T;
}
