/* Where the page's data come from: the file itself, or the server of `harness view`. */

import { asked, follow, indexed, pulse } from "./live/server";
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
  /** An attempt as the run's file has it, with the request and the reply. A report does not have it. */
  line?(run: string, instance: string, sample: number, round: number): Promise<object>;
  subscribe(onChange: () => void): () => void;
}

const PAGE = 200;
const AGAIN_MS = 300; // until a search that goes on is asked for again

interface Reply { cases: number; instances: number; done: number; page: Case[] }

export class ServerSource implements Source {
  /** The pages of the last search, shown until those of the same search are there again. */
  #before: { key: string; pages: Map<number, Case[] | null> } | null = null;

  async overview() {
    const overview = await asked<Overview & { indexed: number }>("api/overview");
    indexed.value = overview.indexed;
    return overview;
  }

  index() {
    return asked<Index>("api/index");
  }

  find(state: State, tell: (found: Found) => void) {
    const asking = parameters({ ...state, tables: new Map(), open: null });
    const key = asking.toString();
    const old = this.#before?.key === key ? this.#before.pages : null;
    const pages = new Map<number, Case[] | null>();
    let stopped = false;
    let found: Found = { cases: 0, instances: 0, done: 0, running: true, get, place };
    function get(at: number) {
      const number = Math.floor(at / PAGE);
      if (!pages.has(number) && !stopped) void load(number);
      return (pages.get(number) ?? old?.get(number))?.[at % PAGE];
    }
    function place(instance: string, sample: number) {
      for (const [number, page] of pages) {
        const at = page?.findIndex((one) => one.instance === instance && one.sample === sample) ?? -1;
        if (at >= 0) return number * PAGE + at;
      }
      return -1;
    }
    const load = async (number: number) => {
      if (!pages.has(number)) pages.set(number, null);
      const query = new URLSearchParams(asking);
      query.set("from", String(number * PAGE));
      query.set("to", String((number + 1) * PAGE));
      const { cases, instances, done, page } = await asked<Reply>(`api/cases?${query}`);
      if (stopped) return;
      if (done < 1) setTimeout(() => void (stopped || load(number)), AGAIN_MS);
      else if (found.done < 1) pages.clear(); // other pages may have been of a part of the file
      pages.set(number, page);
      this.#before = { key, pages };
      found = { ...found, cases, instances, done, running: done < 1 };
      tell(found);
    };
    void load(0);
    return () => { stopped = true; };
  }

  async entry(instance: string) {
    const reply = await fetch(`api/entry?${new URLSearchParams({ instance })}`);
    return reply.status === 404 ? null : ((await reply.json()) as Entry);
  }

  line(run: string, instance: string, sample: number, round: number) {
    return asked<object>(`api/line?${new URLSearchParams({ run, instance, sample: String(sample), round: String(round) })}`);
  }

  subscribe(onChange: () => void) {
    let known = "";
    return follow<{ version: number[]; indexed: number }>("api/events", ({ version, indexed: share }) => {
      indexed.value = share;
      if (share === 1) pulse.value++;
      if (known !== String(version)) onChange();
      known = String(version);
    });
  }
}
