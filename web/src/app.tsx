/* Starts the page, and connects its parts. */

import { signal } from "@preact/signals";
import { render } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import "./page.css";
import { CaseView } from "./case";
import { EmbeddedSource } from "./embedded";
import { FigureCard, Tooltip } from "./figure";
import { Grid } from "./grid";
import "./live/live.css";
import { RunsPage } from "./live/runs";
import { Indexing, Timelines } from "./live/timeline";
import type { Index, Overview, Part } from "./model";
import { type Found, ServerSource, type Source } from "./source";
import { close, followLinks, go, gridLink, linkTo, nothingOpen, state } from "./state";
import { Answer, Comparison, Differences, Failures, Rates, Scores, Section } from "./summary";
import { DataTable, meanings } from "./table";
import { counted, precision, T, visible } from "./text";
import { nextTheme, theme } from "./theme";

const overview = signal<Overview | null>(null);
const index = signal<Index | null>(null);
const version = signal(0); // of a live page's data
/** Whether the file has the data, rather than a server. */
const embedded = document.getElementById("overview") !== null;

function Parts({ parts }: { parts: Part[] }) {
  // Neighbouring figures stand beside each other.
  const blocks: (Part | Extract<Part, { kind: "figure" }>[])[] = [];
  for (const part of parts) {
    const last = blocks.at(-1);
    if (part.kind !== "figure") blocks.push(part);
    else if (Array.isArray(last)) last.push(part);
    else blocks.push([part]);
  }
  return (
    <>
      {blocks.map((block, at) => {
        if (Array.isArray(block)) return <div class="figures" key={at}>{block.map((each) => <FigureCard key={each.name} figure={each} />)}</div>;
        if (block.kind === "table") return <DataTable key={at} table={block} />;
        return block.kind === "note" && <p class="note" key={at}><T t={block.text} /></p>;
      })}
    </>
  );
}

function Groups({ overview }: { overview: Overview }) {
  const labels = Object.entries(overview.groups).filter(([, groups]) => Object.keys(groups).length);
  if (!labels.length) return null;
  return (
    <Section id="groups" title="What the groups mean" folded>
      {labels.map(([label, groups]) => (
        <dl class="groups-told" key={label} aria-label={visible(label)}>
          {Object.entries(groups).map(([group, meaning]) => <div key={group}><dt><T t={group} /></dt><dd><T t={meaning} /></dd></div>)}
        </dl>
      ))}
    </Section>
  );
}

/** The field's words for the rows of the grid (DESIGN.md), for readers who do not know ours. */
function Words({ index }: { index: Index }) {
  return (
    <p class="note">
      An <b>instance</b> is one item of the task, and a <b>sample</b> is one{index.samples > 1 ? ` of ${counted(index.samples)} independent answers` : " answer"} to
      it: a row of the list. An <b>attempt</b> is one reply with its scores{index.rounds > 1 ? ": a sample has one in each of its rounds of feedback" : ""}.
    </p>
  );
}

/** The sections that are drawn from their parts alone. */
const others = ({ sections }: Overview) => sections.filter(({ id }) => !["matrix", "scores", "comparison"].includes(id));

function Report({ overview, found, cancel }: { overview: Overview; found: Found | null; cancel: () => void }) {
  const matrix = overview.sections.find(({ id }) => id === "matrix");
  const partsOf = (id: string) => {
    const own = overview.sections.find((section) => section.id === id);
    return own && <Parts parts={own.parts} />;
  };
  const shares = overview.runs.filter((run) => run.included < run.attempts);
  return (
    <>
      <Answer overview={overview} />
      {matrix && <Section id="matrix" title={matrix.title}><Parts parts={matrix.parts} /></Section>}
      {!embedded && <Indexing />}
      {!embedded && <Timelines runs={overview.runs.length} prefix={overview.prefix} open={overview.live} />}
      {overview.runs.length > 0 && <Rates overview={overview} />}
      <Differences overview={overview} />
      <Failures overview={overview} />
      <Section id="attempts" title="Samples">
        {index.value && <Words index={index.value} />}
        {shares.map((run) => (
          <p class="note" key={run.name}>
            <b><T t={run.name} /></b>: {counted(run.included)} of {counted(run.attempts)} attempts are in this page: all attempts on
            randomly drawn instances. attempts.jsonl has the rest.
          </p>
        ))}
        {index.value ? <Grid index={index.value} {...{ overview, found, cancel }} state={state.value} /> : <p class="note">Reading the attempts…</p>}
      </Section>
      <Scores overview={overview} index={index.value}>{partsOf("scores")}</Scores>
      <Comparison overview={overview}>{partsOf("comparison")}</Comparison>
      {others(overview).map(({ id, title, parts }) => <Section key={id} id={id} title={title} folded><Parts parts={parts} /></Section>)}
      <Groups overview={overview} />
      {overview.method.length > 0 && (
        <Section id="method" title="How is this computed?" folded>
          {overview.method.map((text, at) => <p class="note" key={at}><T t={text} /></p>)}
        </Section>
      )}
      <Section id="provenance" title="Provenance" folded><Parts parts={overview.provenance} /></Section>
    </>
  );
}

/** Parts of the page that are there, for the bar at the top. */
function useSections(overview: Overview) {
  const links = useMemo(() => {
    const has = (section: string) => overview.sections.some(({ id }) => id === section);
    const some = (there: boolean, id: string, title: string): [string, string][] => (there ? [[id, title]] : []);
    return [
      ["main", "Answer"],
      ...some(has("matrix"), "matrix", "Models"),
      ...some(!embedded, "timeline", "Timeline"),
      ...some(overview.runs.some((run) => run.failures.length), "failures", "Failures"),
      ["attempts", "Samples"],
      ...some(overview.runs.some((run) => run.scores.length), "scores", "Checks"),
      ...some(Boolean(overview.comparison?.rows.length || has("comparison")), "comparison", "Comparison"),
      ...others(overview).map(({ id, title }): [string, string] => [id, title]),
      ["provenance", "Provenance"],
    ] as [string, string][];
  }, [overview]);
  const [current, setCurrent] = useState("main");
  useEffect(() => {
    const seen = new Set<Element>();
    const every = [...document.querySelectorAll("main section")];
    const observer = new IntersectionObserver(
      (entries) => {
        for (const { target, isIntersecting } of entries) {
          if (isIntersecting) seen.add(target);
          else seen.delete(target);
        }
        const ids = links.map(([id]) => id);
        const first = every.find((each) => seen.has(each));
        if (first) setCurrent(ids.includes(first.id) ? first.id : "main");
      },
      { rootMargin: "-20% 0px -60% 0px" },
    );
    every.forEach((each) => observer.observe(each));
    return () => observer.disconnect();
  }, [links, index.value]);
  return { links, current };
}

function Bar({ overview }: { overview: Overview }) {
  const { links, current } = useSections(overview);
  const nav = useRef<HTMLElement>(null);
  useEffect(() => {
    // Scroll only the bar, to centre its link as far as possible.
    const [box, place] = [nav.current!, nav.current!.querySelector<HTMLElement>("[aria-current]")];
    if (!place) return;
    const left = place.getBoundingClientRect().left - box.getBoundingClientRect().left;
    box.scrollLeft += left - (box.clientWidth - place.offsetWidth) / 2;
  }, [current]);
  const sign = { auto: "◐", light: "○", dark: "●" }[theme.value];
  const leave = (id: string) =>
    state.value.open !== null ? go(nothingOpen) : document.getElementById(id)?.scrollIntoView(); // its link may be the address already
  return (
    <header class="bar">
      <nav aria-label="Sections" ref={nav}>
        <ul>
          {!embedded && <li><a href="/">All runs</a></li>}
          {links.map(([id, title]) => (
            <li key={id}>
              <a href={linkTo(id, state.value)} aria-current={state.value.open === null && id === current ? "true" : undefined} onClick={() => leave(id)}><T t={title} /></a>
            </li>
          ))}
        </ul>
      </nav>
      <button type="button" id="theme" class="quiet" aria-label={`Theme: ${theme.value}`} onClick={nextTheme}>
        <span aria-hidden="true">{sign}</span><span> Theme: {theme.value}</span>
      </button>
    </header>
  );
}

/** Shows the section that a link leads to, which may be folded. */
function showLinked() {
  const [, id] = /^#([^?]+)/u.exec(location.hash) ?? [];
  const section = id ? document.getElementById(id) : null;
  const folded = section?.querySelector<HTMLDetailsElement>(":scope > details");
  if (folded) folded.open = true;
  section?.scrollIntoView({ behavior: "instant" });
}

/** Keeps a linked section in view until the reader scrolls, as charts above it are still drawn. */
function stayWhereLinked() {
  let moved = false;
  for (const kind of ["wheel", "touchmove", "keydown", "pointerdown"]) {
    addEventListener(kind, () => { moved = true; }, { passive: true, capture: true });
  }
  addEventListener("hashchange", () => { moved = false; });
  new ResizeObserver(() => {
    if (!moved && state.value.open === null) showLinked();
  }).observe(document.body);
}

function App({ source, overview }: { source: Source; overview: Overview }) {
  const [found, setFound] = useState<Found | null>(null);
  const stop = useRef(() => {});
  const { open } = state.value;
  const chosen = gridLink(state.value);
  useEffect(() => {
    let current = true;
    stop.current = source.find(state.value, (each) => current && setFound(each));
    return () => {
      current = false;
      stop.current();
    };
  }, [chosen, version.value]);

  const before = useRef<number | null>(null); // where the reader was before opening a case
  const wasOpen = useRef(open !== null);
  useEffect(() => {
    if (found) performance.mark("attempts-ready");
  }, [found !== null]);
  useEffect(() => {
    if (open === null && wasOpen.current) {
      if (before.current === null) document.getElementById("attempts")?.scrollIntoView({ behavior: "instant" });
      else scrollTo({ top: before.current, behavior: "instant" });
      document.getElementById("list")?.focus({ preventScroll: true });
    }
    wasOpen.current = open !== null;
  }, [open === null]);
  useEffect(() => {
    const remember = () => { if (state.value.open === null) before.current = scrollY; };
    addEventListener("scroll", remember, { passive: true });
    const key = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
      const typing = (event.target as Element).closest?.("input, select, textarea");
      if (event.key === "/" && !typing) {
        event.preventDefault();
        if (state.value.open !== null) go(nothingOpen);
        requestAnimationFrame(() => {
          const query = document.getElementById("query") as HTMLInputElement | null;
          query?.focus();
          query?.select();
        });
      } else if (event.key === "Escape" && state.value.open !== null) close();
      else if (event.key === "Escape") stop.current();
    };
    addEventListener("keydown", key);
    followLinks(() => {
      if (state.value.open === null) requestAnimationFrame(showLinked);
    });
    stayWhereLinked();
  }, []);
  return (
    <>
      <a class="skip" href="#main">Skip to the results</a>
      <Bar overview={overview} />
      <main id="main" tabIndex={-1}>
        <div id="report" hidden={open !== null}><Report overview={overview} found={found} cancel={() => stop.current()} /></div>
        {open !== null && index.value && (
          <CaseView index={index.value} {...{ overview, found, source }} state={state.value} version={version.value} />
        )}
      </main>
      <Tooltip />
    </>
  );
}

function Page({ source }: { source: Source }) {
  return overview.value && <App source={source} overview={overview.value} />;
}

async function begin() {
  const page = document.getElementById("app")!;
  if (!embedded && location.pathname === "/") return render(<RunsPage />, page);
  const source: Source = embedded ? new EmbeddedSource() : new ServerSource();
  let loading = false;
  let again = false;
  const load = async () => {
    again = loading;
    if (loading) return;
    loading = true;
    try {
      overview.value = await source.overview();
      precision.digits = overview.value.digits;
      for (const groups of Object.values(overview.value.groups)) {
        for (const [group, meaning] of Object.entries(groups)) meanings.set(group, meaning);
      }
      document.title = visible(overview.value.title);
      index.value = await source.index();
      version.value++;
    } finally {
      loading = false;
    }
    if (again) await load();
  };
  render(<Page source={source} />, page);
  await load();
  source.subscribe(() => void load());
}

void begin();
