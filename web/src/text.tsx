/* Texts. Everything that comes from a run goes through here as text: it is never interpreted as
   markup, and control or invisible characters are shown as escapes. */

import type { ComponentChild } from "preact";
import { useState } from "preact/hooks";
import type { Cut } from "./model";

/** Invisible or direction-changing characters (as in harness/plugins/report/parts.py). */
const HIDDEN =
  /(?![\n\t])[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\u034F\u115F\u1160\u17B4\u17B5\u180B-\u180F\u2800\u3164\uFE00-\uFE0D\uFFA0\u{E0100}-\u{E01EF}]/gu;

const escaped = (character: string) =>
  `⟨U+${character.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}⟩`;

/** A text for contexts without elements, such as an attribute or option. */
export const visible = (text: string) => text.replace(HIDDEN, escaped);

/** The text, or its beginning if the page has only that. */
export const full = (text: Cut | undefined | null) =>
  text == null ? "" : typeof text === "string" ? text : text.text;

export const counted = (number: number) => number.toLocaleString("en-US");
export const several = (number: number, one: string, more = `${one}s`) =>
  `${counted(number)} ${number === 1 ? one : more}`;

/** Decimals of every percentage: as many as the numbers of samples support (overview.digits). */
export const precision = { digits: 0 };
/** Like `percentage` in harness/report/text.py: 99.6% is not shown as 100%. */
export function percent(rate: number) {
  const { digits } = precision;
  const step = 10 ** -digits;
  if (rate > 0 && rate < 1 && (100 * rate < step / 2 || 100 * rate > 100 - step / 2)) {
    return rate < 0.5 ? `<${step}%` : `>${(100 - step).toFixed(digits)}%`;
  }
  return `${(100 * rate).toFixed(digits)}%`;
}
/** A value with its unit: a fraction as a percentage, anything else with three digits. */
export const measured = (value: number, unit: string) => (unit === "%" ? percent(value) : String(Number(value.toPrecision(3))));
export const between = (low: number, high: number, unit: string) =>
  `${measured(low, unit).replace("%", "")} to ${measured(high, unit)}`;
export const seconds = (time: number) =>
  time < 0.0005 ? "<1 ms" : time < 1 ? `${Math.round(time * 1000)} ms` : `${time.toFixed(time < 10 ? 1 : 0)} s`;
/** With as many decimals as `usd` in harness/report/text.py. */
export function dollars(cost: number) {
  if (cost > 0 && cost < 0.001) return `$${Number(cost.toPrecision(2))}`;
  const digits = cost > 0 && cost < 1 ? 4 : 2;
  return `$${Number(cost.toFixed(digits)).toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits })}`;
}

const literal = (text: string) => text.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");

/** Any of these texts, in any case; null without texts. */
export function pattern(wanted: string[]): RegExp | null {
  const every = wanted.filter(Boolean).sort((a, b) => b.length - a.length).map(literal);
  return every.length ? new RegExp(every.join("|"), "giu") : null;
}

/** The words of a search, and its phrases in double quotes (as in harness/view/text_search.py). */
export const wordsOf = (query: string) => [...query.toLowerCase().matchAll(/"([^"]+)"|([^\s"]+)/gu)].map(([, phrase, word]) => (phrase ?? word)!);

/** Whether a text is a reason (harness/analysis/failures.py) with the values that N and '…' stand for. */
export function isReason(reason: string): (text: string) => boolean {
  const values = literal(reason.replace(/…$/u, "")).replaceAll("N", "(?:\\d+|N)").replaceAll("'…'", "(?:'[^']*'|\"[^\"]*\")");
  const found = new RegExp(`^${values}`, "u");
  return (text) => reason !== "" && found.test(text.replace(/\s+/gu, " "));
}

/** A text with its hidden characters marked, and the searched ones highlighted. */
export function T({ t, find, kind }: { t: string; find?: RegExp | null; kind?: string }) {
  if (!find && t.search(HIDDEN) < 0) return <>{t}</>;
  const parts: ComponentChild[] = [];
  const cut = (text: string, by: RegExp, between: (text: string) => void, found: (text: string) => void) => {
    let from = 0;
    for (const { 0: match, index } of text.matchAll(by)) {
      between(text.slice(from, index));
      found(match);
      from = index + match.length;
    }
    between(text.slice(from));
  };
  const shown = (text: string) =>
    find ? cut(text, find, (t) => t && parts.push(t), (t) => parts.push(<mark class={kind}>{t}</mark>)) : parts.push(text);
  cut(t, HIDDEN, shown, (found) => parts.push(<span class="escape">{escaped(found)}</span>));
  return <>{parts}</>;
}

/** Characters of a text to show before "show all" is pressed. */
const FIRST_PART = 20_000;

/** A text of a run, as a block. */
export function Block({ text, find, kind }: { text: Cut; find?: RegExp | null; kind?: string }) {
  const [all, setAll] = useState(false);
  const there = full(text);
  const long = there.length > FIRST_PART && !all;
  return (
    <div>
      <div class="text" dir="auto" tabIndex={all ? -1 : undefined} ref={(box) => { if (all) box?.focus({ preventScroll: true }); }}>
        <T t={long ? there.slice(0, FIRST_PART) : there} find={find} kind={kind} />
      </div>
      {long && (
        <p class="cut">
          … <button type="button" class="quiet" onClick={() => setAll(true)}>Show all {several(there.length, "character")}</button>
        </p>
      )}
      {typeof text !== "string" && (
        <p class="cut">Cut: the full text has {several(text.length, "character")}. See attempts.jsonl.</p>
      )}
    </div>
  );
}
