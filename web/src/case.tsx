/* An open sample: its prompt, and the rounds of one run, or of two side by side. */

import { type Change, diffWordsWithSpace } from "diff";
import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { asked as asking, type Attempt, type Constraint, type Cut, type Entry, type Index, kindOf, type Message, type Overview, type Score, SIGNS, VERDICTS } from "./model";
import type { Found, Source } from "./source";
import { close, go, type State } from "./state";
import { Block, counted, dollars, full, isReason, pattern, seconds, several, T, visible, wordsOf } from "./text";

type Rounds = Map<number, Attempt>;

/** The numbers of the one or two runs to show: first those that were asked for, then the baseline. */
function sides(index: Index, state: State): number[] {
  const number = (name: string) => index.runs.findIndex((run) => run.name === name);
  const shown = index.runs.flatMap(({ name }, run) => (!state.run.length || state.run.includes(name) ? [run] : []));
  const first = [...[state.of, state.where].map(number).filter((run) => run >= 0), ...shown.filter((run) => run === baselineOf(index))];
  const order = [...first, ...shown];
  const left = number(state.left) >= 0 ? number(state.left) : (order[0] ?? 0);
  const right = number(state.right) >= 0 ? number(state.right) : order.find((run) => run !== left);
  return right === undefined || right === left ? [left] : [left, right];
}

const baselineOf = (index: Index) => index.changes[0]?.baseline ?? 0;

/** A run's last round, up to the compared one; 0 if the run has no attempt. */
function roundThatCounts(index: Index, rounds: Rounds) {
  const upTo = index.compared?.round ?? Infinity;
  return Math.max(0, ...[...rounds.keys()].filter((round) => round <= upTo));
}

interface Shown { index: Index; overview: Overview; state: State; found: Found | null; source: Source; version: number }

export function CaseView({ index, overview, state, found, source, version }: Shown) {
  const [loaded, setLoaded] = useState<{ of: string; entry: Entry | null }>();
  const title = useRef<HTMLHeadingElement>(null);
  const name = state.open!;
  useEffect(() => {
    let current = true;
    void source.entry(name).then((entry) => current && setLoaded({ of: name, entry }));
    return () => { current = false; };
  }, [name, version]);
  const entry = loaded?.of === name ? loaded.entry : undefined;
  const there = entry?.attempts.some((one) => one.sample === state.sample);
  useEffect(() => {
    if (entry === undefined) return;
    scrollTo({ top: 0, behavior: "instant" });
    title.current?.focus({ preventScroll: true });
    // The compared attempts are at the top; the link may ask for another round.
    if (state.at) document.querySelector(".others ~ * [data-asked], .rounds > [data-asked]:not(:first-child)")?.scrollIntoView({ behavior: "instant" });
  }, [name, state.sample, entry === undefined]);

  const find = useMemo(() => pattern(wordsOf(state.q)), [state.q]);
  const place = found?.place(name, state.sample) ?? -1;
  const beside = (by: number) => (place < 0 ? undefined : found?.get(place + by));
  const step = (by: number) => {
    const to = beside(by);
    if (to) go({ open: to.instance, sample: to.sample, at: 0 });
  };
  useEffect(() => {
    const key = (event: KeyboardEvent) => {
      const busy = (event.target as Element).closest?.("input, select, textarea, .scroll");
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || busy) return;
      if (event.key === "ArrowLeft") step(-1);
      else if (event.key === "ArrowRight") step(1);
    };
    addEventListener("keydown", key);
    return () => removeEventListener("keydown", key);
  });

  const chips = index.labels.flatMap(({ name: label, groups }, at) => {
    const group = entry?.groups[at];
    return group == null || groups.length < 2 ? [] : [[label, group, overview.groups[label]?.[group]] as const];
  });
  const chosen = sides(index, state);
  const hint = overview.runs.flatMap((run) => run.failures).find((failure) => failure.hint)?.hint ?? "";
  return (
    <div id="open" class="open">
      <div class="steps">
        <button type="button" aria-keyshortcuts="Escape" onClick={close}>← Back to the list</button>
        <button type="button" aria-keyshortcuts="ArrowLeft" disabled={!beside(-1)} onClick={() => step(-1)}>Previous</button>
        <button type="button" aria-keyshortcuts="ArrowRight" disabled={!beside(1)} onClick={() => step(1)}>Next</button>
        <span class="at">{place < 0 ? "not in the filtered list" : `${counted(place + 1)} of ${counted(found!.cases)}`}</span>
      </div>
      {entry !== undefined && !there && (
        <>
          <h1 class="case" ref={title} tabIndex={-1}>Not in this page</h1>
          <p class="note">This page has no sample {state.sample} of <T t={name} />.</p>
        </>
      )}
      {entry && there && (
        <>
          <h1 class="case" ref={title} tabIndex={-1} dir="auto"><T t={name} find={find} /></h1>
          <ul class="chips">
            {chips.map(([label, group, meaning]) => <li key={label}><T t={label} /> <b><T t={group} /></b>{meaning && <> (<T t={meaning} />)</>}</li>)}
            {index.samples > 1 && <li>sample <b>{state.sample}</b></li>}
          </ul>
          {index.runs.length > 2 && (
            <div class="sides">
              {(["left", "right"] as const).map((key, side) => (
                <div class="choice" key={key}>
                  <label for={`side-${key}`}>{side ? "Right" : "Left"}</label>
                  <select
                    id={`side-${key}`} value={String(chosen[side])}
                    onChange={(event) => go({ [key]: index.runs[Number(event.currentTarget.value)]!.name })}
                  >
                    {index.runs.map((run, number) => <option key={number} value={String(number)}>{visible(run.name)}</option>)}
                  </select>
                </div>
              ))}
            </div>
          )}
          <Sample index={index} state={state} entry={entry} runs={chosen} {...{ find, hint, source }} />
        </>
      )}
    </div>
  );
}

interface SampleShown { index: Index; state: State; entry: Entry; runs: number[]; find: RegExp | null; hint: string; source: Source }

/** The compared answers, then what they were asked and should be, then the other rounds. */
function Sample({ index, state, entry, runs, find, hint, source }: SampleShown) {
  const found = runs.map((run): Rounds =>
    new Map(entry.attempts.filter((one) => one.run === run && one.sample === state.sample).map((one) => [one.round, one])),
  );
  const counts = found.map((rounds) => roundThatCounts(index, rounds));
  const last = Math.max(0, ...found.flatMap((rounds) => [...rounds.keys()]));
  const name = (side: number) => index.runs[runs[side]!]!.name;
  const alone = runs.length < 2;
  const scripted = entry.attempts.some((one) => one.turns);
  const unit = scripted ? "turn" : "round";
  const former = Math.max(0, runs.indexOf(baselineOf(index)));
  const textOf = (side: number, round: number) => found[side]?.get(round)?.text;
  const comparable = alone ? last > 1 && !scripted : textOf(0, counts[0]!) !== undefined && textOf(1, counts[1]!) !== undefined;

  /** The answer that an answer is compared with: the other run's, or the round before. */
  const against = (side: number, round: number): Cut | undefined => {
    if (!state.diff) return undefined;
    if (alone) return textOf(0, round - 1);
    return round === counts[side] ? textOf(1 - side, counts[1 - side]!) : undefined;
  };
  const attempt = (side: number, round: number) => {
    const run = index.runs[runs[side]!]!;
    const title = [...(index.runs.length > 1 ? [run.name] : []), ...(last > 1 ? [`${unit} ${round}`] : [])].join(" · ") || "Answer";
    return (
      <AttemptView
        key={`${side} ${round}`}
        {...{ index, find, title, side, round, hint, against: against(side, round), between: alone ? "both" : side === former ? "before" : "after" }}
        attempt={found[side]!.get(round)!}
        repliesTo={alone ? undefined : found[side]!.get(round - 1)?.feedback}
        ends={alone || !found[side]!.has(round + 1)}
        reason={state.reason}
        recorded={run.recorded}
        line={source.line && (() => source.line!(run.name, state.open!, state.sample, round))}
        asked={last > 1 && round === state.at && (alone || run.name === state.of)}
        compared={last > 1 && index.compared !== null && round === counts[side]}
      />
    );
  };
  const missing = (side: number, round: number) => {
    const ended = Math.max(0, ...found[side]!.keys());
    if (round > ended + 1) return <div />; // the row before says so
    return <p class="missing"><b><T t={name(side)} /></b> {ended ? `ended with ${unit} ${ended}.` : "has no such sample."}</p>;
  };
  const row = (columns: ComponentChildren[], key: string | number) => <div class="columns" data-columns={columns.length} key={key}>{columns}</div>;
  const rounds = Array.from({ length: last }, (_, at) => at + 1);
  return (
    <>
      <div class="tools">
        {last > 1 && (
          <ul class="turns">
            {runs.map((run, side) => (
              <li key={run}>
                <span class="name">{index.runs.length > 1 ? <T t={name(side)} /> : scripted ? "Turns" : "Rounds"}</span>
                {[...found[side]!].map(([round, { verdict }]) => {
                  const mark = index.compared && round === counts[side] ? "compared" : "";
                  return (
                    <button
                      key={round} type="button" class={kindOf(verdict)} data-mark={mark || undefined} onClick={() => toRound(side, round)}
                      aria-label={`To ${unit} ${round}, ${VERDICTS[verdict]}${mark && `, ${mark}`}`}
                    >
                      {round} {SIGNS[verdict]}{mark && ` ${mark}`}
                    </button>
                  );
                })}
              </li>
            ))}
          </ul>
        )}
        {comparable && (
          <span>
            <button type="button" aria-pressed={state.diff === "1"} onClick={() => go({ diff: state.diff ? "" : "1" })}>
              {alone ? "Mark the changes between rounds" : "Mark the differences"}
            </button>
            {state.diff && <small><del>{alone ? "removed" : <>only <T t={name(former)} /></>}</del> <ins>{alone ? "added" : <>only <T t={name(1 - former)} /></>}</ins></small>}
          </span>
        )}
        <button type="button" class="quiet" onClick={() => show(document.getElementById("prompts"))}>To the prompt</button>
      </div>
      {alone ? (
        <div class="rounds">{rounds.filter((round) => found[0]!.has(round)).map((round) => attempt(0, round))}</div>
      ) : (
        // The compared attempts come first, side by side, although their rounds may differ.
        row(runs.map((_, side) => (counts[side] ? attempt(side, counts[side]) : missing(side, 1))), "first")
      )}
      {entry.references && (
        <section class="prompt reference">
          <header><h3>{entry.references.length > 1 ? "Reference answers" : "Reference answer"}</h3></header>
          {entry.references.map((text, at) => <Part key={at}><Block text={text} find={find} /></Part>)}
        </section>
      )}
      <Prompts {...{ index, entry, runs, found, find }} />
      {!alone && (
        <>
          {last > 1 && <h3 class="others">The other {unit}s</h3>}
          {rounds.map((round) => {
            const others = found.map((each, side) => each.has(round) && counts[side] !== round);
            if (!others.includes(true)) return null;
            return row(
              runs.map((_, side) => {
                if (others[side]) return attempt(side, round);
                if (counts[side] === round) return <p class="missing"><b><T t={name(side)} /></b> {unit} {round} is above.</p>;
                return found[side]!.size ? missing(side, round) : <div />;
              }),
              round,
            );
          })}
        </>
      )}
    </>
  );
}

function toRound(side: number, round: number) {
  show(document.querySelector<HTMLElement>(`[data-side="${side}"][data-round="${round}"]`));
}

function show(element: HTMLElement | null) {
  element?.scrollIntoView({ behavior: "instant" });
  element?.focus({ preventScroll: true });
}

function Prompts({ index, entry, runs, found, find }: { index: Index; entry: Entry; runs: number[]; found: Rounds[]; find: RegExp | null }) {
  const numbers = found.map((rounds) => rounds.get(1)?.prompt);
  const there = numbers.flatMap((number, side) => (number === undefined ? [] : [side]));
  const same = new Set(there.map((side) => numbers[side])).size < 2;
  const prompts = same ? there.slice(0, 1) : there;
  return (
    <div id="prompts" class="columns" data-columns={prompts.length || 1} tabIndex={-1}>
      {prompts.map((side) => {
        const messages = entry.prompts[numbers[side]!]!;
        const shown = asking(messages);
        const earlier = messages.filter((message) => !shown.includes(message)); // such as few-shot examples
        const alone = messages.length === 1 && messages[0]![0] === "user";
        const message = ([role, text]: Message, at: number) => <Part key={at} title={alone ? undefined : role}><Block text={text} find={find} /></Part>;
        return (
          <section class="prompt" key={side}>
            <header><h3>{same ? "Prompt" : <>Prompt of <T t={index.runs[runs[side]!]!.name} /></>}</h3></header>
            {shown.slice(0, -1).map(message)}
            {earlier.length > 0 && <Part><details><summary>{several(earlier.length, "message")} before the last</summary>{earlier.map(message)}</details></Part>}
            {shown.slice(-1).map(message)}
          </section>
        );
      })}
    </div>
  );
}

function Part({ title, children }: { title?: string; children: ComponentChildren }) {
  return <div class="part">{title !== undefined && <h4><T t={title} /></h4>}{children}</div>;
}

function Folded({ title, text, find }: { title: string; text: Cut; find?: RegExp | null }) {
  return <details open={Boolean(find) && full(text).search(find!) >= 0}><summary><T t={title} /></summary><Block text={text} find={find} /></details>;
}

interface AttemptShown {
  index: Index;
  hint: string;
  attempt: Attempt;
  title: string;
  side: number;
  round: number;
  find: RegExp | null;
  asked: boolean;
  compared: boolean;
  recorded: boolean;
  against: Cut | undefined;
  between: string;
  /** The feedback that the attempt replies to, unless its round is shown above. */
  repliesTo: Cut | undefined;
  /** Whether no later round shows the attempt's own feedback. */
  ends: boolean;
  /** The reason that the list is filtered by, whose scores come first. */
  reason: string;
  /** Asks for the attempt's line in the run's file. */
  line?: () => Promise<object>;
}

/** The request and the reply as they are recorded, asked for when they are opened. */
function Recorded({ line }: { line: () => Promise<object> }) {
  const [text, setText] = useState("");
  const ask = () => void line().then((told) => setText(JSON.stringify(told, null, 2)), (error: Error) => setText(error.message));
  return (
    <details class="recorded" onToggle={({ currentTarget }) => currentTarget.open && !text && ask()}>
      <summary>Request and reply as recorded</summary>
      {text && <Block text={text} />}
    </details>
  );
}

function AttemptView({ index, attempt, title, side, round, find, asked, compared, recorded, hint, against, between, repliesTo, ends, reason, line }: AttemptShown) {
  const [chosen, setChosen] = useState<string[]>([]);
  // One kind of mark at a time: places of a check, or differences.
  const places = against === undefined ? chosen : [];
  const mark = (wanted: string[]) => {
    setChosen(wanted);
    go({ diff: "" });
  };
  const outcome = index.outcomes[attempt.outcome]!;
  const verdict = VERDICTS[attempt.verdict];
  const said = outcome === "ok" ? verdict : `${outcome}, ${verdict}`;
  const kind = kindOf(attempt.verdict);
  const { text, reasoning, error, feedback, extracted, scores = [], judges = [] } = attempt;
  const byModel = attempt.played ? ", played by a model" : "";
  const unparseable = outcome === "unparseable";
  const ofReason = reasonOf(reason);
  const inOrder = [...scores.filter(ofReason), ...scores.filter((score) => !ofReason(score))];
  const marked = places.length ? pattern(places) : find;
  return (
    <article
      class="attempt" data-verdict={kind} data-asked={asked ? "" : undefined} data-side={side} data-round={round} tabIndex={-1}
      aria-label={visible(`${title}: ${said}${compared ? ", compared" : ""}`)}
    >
      <header>
        <h3><T t={title} /></h3>
        {compared && <span class="tag">compared</span>}
        <span class={`said ${kind}`}>{SIGNS[attempt.verdict]} {said}</span>
      </header>
      {reasoning && <Part><Folded title="Reasoning" text={reasoning} find={find} /></Part>}
      {text === "" && <Part><p class="note">An empty answer.</p></Part>}
      {text && (
        <Part>
          {against !== undefined ? <Difference text={text} against={against} between={between} /> : <Block text={text} find={marked} kind={places.length ? "place" : undefined} />}
        </Part>
      )}
      {error && (
        <Part title={unparseable ? "Why the answer cannot be read" : "Error"}>
          <Block text={error} find={find} />
          {unparseable && hint && full(text).includes("```") && <p class="hint"><T t={hint} /></p>}
        </Part>
      )}
      {extracted !== undefined && (
        <Part title="The part that is scored">
          <div class="extracted"><Block text={extracted} find={find} /></div>
          {attempt.extraction && <p class="note">Found by <T t={full(attempt.extraction)} /></p>}
        </Part>
      )}
      {repliesTo && <Part title={attempt.turns ? `The user's turn${byModel}` : `Prompt of this round: feedback on round ${round - 1}`}><Block text={repliesTo} find={find} /></Part>}
      {scores.length > 0 && (
        <Part title="Scores">
          <ul class="scores">
            {inOrder.map((score) => <ScoreView key={score.name} {...{ score, find, places, answer: full(text), reason: ofReason(score) ? reason : "" }} onPlaces={mark} />)}
          </ul>
        </Part>
      )}
      {judges.map((judge) => <JudgeView key={judge.name} judge={judge} said={index.runs[attempt.run]?.judges?.[judge.name]} find={find} />)}
      {feedback && ends && <Part title={attempt.turns ? `The user's next turn${byModel}` : "Feedback"}><Block text={feedback} find={find} /></Part>}
      {attempt.ends && <Part title={`The user ends the conversation${byModel}`}><Block text={attempt.ends} find={find} /></Part>}
      <Part><Facts attempt={attempt} recorded={recorded} /></Part>
      {line ? <Part><Recorded line={line} /></Part> : attempt.request && <Part><Folded title="Request, without the prompt" text={attempt.request} /></Part>}
    </article>
  );
}

const LONGEST_COMPARED = 50_000; // characters; comparing takes time that grows with their square

/** An answer with the words marked that the other one does not have. */
function Difference({ text, against, between }: { text: Cut; against: Cut; between: string }) {
  const parts = useMemo(() => {
    const [one, other] = [full(against).slice(0, LONGEST_COMPARED), full(text).slice(0, LONGEST_COMPARED)];
    const found: Change[] | undefined =
      between === "before" ? diffWordsWithSpace(other, one, { timeout: 1_000 }) : diffWordsWithSpace(one, other, { timeout: 1_000 });
    return found;
  }, [text, against, between]);
  if (!parts) return <><p class="note">The answers differ too much to mark the differences.</p><Block text={text} /></>;
  return (
    <div class="text" dir="auto">
      {parts.map(({ value, added, removed }, at) => {
        if ((added && between === "before") || (removed && between === "after")) return null;
        if (added) return <ins key={at}><T t={value} /></ins>;
        return removed ? <del key={at}><T t={value} /></del> : <T key={at} t={value} />;
      })}
    </div>
  );
}

/** Whether a score is about a reason for failures. */
function reasonOf(reason: string): (score: Score) => boolean {
  const is = isReason(reason);
  return ({ name, reason: own, passed, constraints = [] }) =>
    passed === false && (is(name) || is(`${name}: ${full(own)}`) || constraints.some((one) => isMissed(reason)(one)) || reason.startsWith(`${name}: `));
}

/** Whether a constraint is not met, and a reason for failures is about it. */
function isMissed(reason: string): (constraint: Constraint) => boolean {
  const [, what] = /(?:^|: )not met: (.*)$/su.exec(reason) ?? [];
  const is = isReason(what ?? "");
  return ([text, passed]) => passed === false && is(full(text));
}

interface ScoreShown { score: Score; find: RegExp | null; answer: string; reason: string; places: string[]; onPlaces: (places: string[]) => void }

function ScoreView({ score, find, answer, reason: filtered, places, onPlaces }: ScoreShown) {
  const { value, passed, reason, details } = score;
  const missed = isMissed(filtered);
  const constraints = (score.constraints ?? []).toSorted((one, other) => Number(missed(other)) - Number(missed(one)));
  const brief = full(details).length > 0 && full(details).length < 60;
  const own = constraints.length ? [] : placesOf([reason ?? "", null, "", "", ""], answer);
  const verdict = passed === undefined ? (value === null ? -1 : null) : passed ? 1 : 0;
  return (
    <li data-filtered={filtered ? "" : undefined}>
      <div class="said-of" dir="auto">
        {verdict === null ? <span class="verdict" /> : <span class={`verdict ${kindOf(verdict)}`} role="img" aria-label={VERDICTS[verdict]}>{SIGNS[verdict]}</span>}
        <b><T t={score.name} /></b>
        {value === null ? <span>not judged</span> : typeof value === "number" && <span>{Number(value.toPrecision(4))}</span>}
        {brief && <span class="detail"><T t={full(details)} find={find} /></span>}
        <Places {...{ own, places, onPlaces }} />
      </div>
      {reason && <Block text={reason} find={find} />}
      {constraints.length > 0 && <Constraints {...{ constraints, answer, places, onPlaces }} />}
      {details && !brief && <Folded title="Details" text={details} find={find} />}
    </li>
  );
}

type Judge = NonNullable<Attempt["judges"]>[number];

/** What a judge replied, by criterion; equal replies are counted. */
function JudgeView({ judge, said, find }: { judge: Judge; said: string | undefined; find: RegExp | null }) {
  const by = new Map<string, Map<string, [reply: Cut, count: number]>>();
  for (const [about, reply] of judge.replies) {
    const replies = by.get(about) ?? new Map<string, [Cut, number]>();
    replies.set(full(reply), [reply, (replies.get(full(reply))?.[1] ?? 0) + 1]);
    by.set(about, replies);
  }
  const long = judge.replies.some(([, reply]) => full(reply).length > 40);
  return (
    <Part title={`Judge ${judge.name}`}>
      {said && <p class="note"><T t={said} /></p>}
      {judge.outcome && <p class="warn"><T t={judge.outcome} />: no verdict. {judge.error && <T t={full(judge.error)} />}</p>}
      {judge.replies.length > 0 && (
        <details open={long && by.size === 1}>
          <summary>{judge.replies.length > 1 ? `${counted(judge.replies.length)} replies` : "Reply"}</summary>
          <dl class="replies">
            {[...by].map(([about, replies]) => (
              <div key={about}>
                {about && <dt><T t={about} /></dt>}
                {[...replies].map(([text, [reply, count]]) => <dd key={text}>{count > 1 && <b class="count">{count} × </b>}<Block text={reply} find={find} /></dd>)}
              </div>
            ))}
          </dl>
        </details>
      )}
    </Part>
  );
}

/** The texts that a constraint is about and that the answer has: its places. */
function placesOf([constraint, , observed, target]: Constraint, answer: string): string[] {
  const quoted = [...full(constraint).matchAll(/["'“‘]([^"'“”‘’]{2,80})["'”’]/gu)].map((found) => found[1]!);
  const told = [observed, target].flatMap((text) => full(text).split("\n"));
  const lower = answer.toLowerCase();
  return [...quoted, ...told].filter((text) => text.length > 1 && !/^[\d.\s]*$|^true$|^false$/u.test(text) && lower.includes(text.toLowerCase()));
}

/** Marks the places of a constraint or check in the answer, or no longer. */
function Places({ own, places, onPlaces }: { own: string[]; places: string[]; onPlaces: (places: string[]) => void }) {
  if (!own.length) return null;
  const on = own.join("\n") === places.join("\n");
  return <button type="button" class="quiet mark-place" aria-pressed={on} onClick={() => onPlaces(on ? [] : own)}>Mark in the answer</button>;
}

function Constraints({ constraints, answer, places, onPlaces }: { constraints: Constraint[]; answer: string; places: string[]; onPlaces: (places: string[]) => void }) {
  const values = (["observed", "wanted", "votes"] as const).map((name, at) => [name, at + 2] as const).filter(([, at]) => constraints.some((one) => full(one[at] as Cut)));
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Constraints">
      <table>
        <thead><tr>{["constraint", "met", ...values.map(([name]) => name)].map((name) => <th scope="col" key={name}>{name}</th>)}</tr></thead>
        <tbody>
          {constraints.map((constraint, at) => {
            const [text, passed] = constraint;
            return (
              <tr key={at}>
                <td dir="auto">
                  <T t={full(text)} />
                  <Places own={placesOf(constraint, answer)} {...{ places, onPlaces }} />
                </td>
                <td class={`met ${passed === null ? "not-judged" : passed ? "passed" : "failed"}`}>{passed === null ? "?" : passed ? "✓ yes" : "✗ no"}</td>
                {values.map(([name, at]) => <td dir="auto" key={name}><T t={full(constraint[at] as Cut)} /></td>)}
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

function Facts({ attempt, recorded }: { attempt: Attempt; recorded: boolean }) {
  const { usage, cost, latency } = attempt;
  const tokens = usage && `${counted(usage.input_tokens)} in, ${counted(usage.output_tokens)} out`;
  const extra = [
    usage?.cached_input_tokens ? `${counted(usage.cached_input_tokens)} cached` : "",
    usage?.reasoning_tokens ? `${counted(usage.reasoning_tokens)} reasoning` : "",
  ].filter(Boolean).join(", ");
  const told: Record<string, string | undefined> = {
    extraction: (!attempt.extracted && full(attempt.extraction)) || undefined,
    finish: attempt.finish,
    tokens: tokens && extra ? `${tokens} (${extra})` : tokens,
    cost: !recorded && cost !== undefined ? dollars(cost) : undefined,
    latency: !recorded && latency !== undefined ? seconds(latency) : undefined,
    "cost and latency": recorded ? "recorded" : undefined,
    cached: attempt.cached ? "yes" : undefined,
    call: attempt.call,
  };
  return (
    <dl class="facts">
      {Object.entries(told).map(([name, value]) => value !== undefined && <div key={name}><dt>{name}</dt><dd><T t={value} /></dd></div>)}
    </dl>
  );
}

