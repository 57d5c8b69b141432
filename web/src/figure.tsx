/* Figures: drawn in the page's theme when they come near the screen, and saved as files. */

import { effect, signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { Result } from "vega-embed";
import { breathe, json } from "./embedded";
import type { Figure } from "./model";
import { DataTable } from "./table";
import { T, visible } from "./text";
import { dark, printing } from "./theme";

/** Pixels per row of the figures' grid, and between figures (`.figures`). */
const ROW = 8;
const GAP = 24;

type Themes = Record<"light" | "dark", object>;
const embedded = document.getElementById("themes") !== null;
let themes: Promise<Themes> | undefined;
let known: Themes | undefined; // at hand, because printing does not wait

/** Vega and the themes: in the file, or from the server. */
async function library() {
  themes ??= embedded ? json<Themes>("themes") : fetch("api/themes").then((reply) => reply.json() as Promise<Themes>);
  known = await themes;
  if (window.harnessCharts) return;
  const script = Object.assign(document.createElement("script"), { src: "/charts.js" });
  await new Promise((resolve, reject) => {
    script.onload = resolve;
    script.onerror = reject;
    document.head.append(script);
  });
}

const all = new Set<() => Promise<void>>();
/** Sections that are unfolded only to be printed. */
let folded: HTMLDetailsElement[] = [];
addEventListener("afterprint", () => folded.forEach((each) => (each.open = false)));
addEventListener("beforeprint", () => {
  folded = [...document.querySelectorAll<HTMLDetailsElement>("section > details:not([open])")];
  for (const each of folded) each.open = true;
  // Synchronous: anything not drawn when this returns is not printed.
  for (const draw of all) void draw();
});

/** Draws figures one after another, so that the page stays responsive. */
const wanted = new Set<() => Promise<void>>();
let drawing = false;
async function want(draw: () => Promise<void>) {
  wanted.add(draw);
  if (drawing) return;
  drawing = true;
  try {
    await library();
    for (const each of wanted) {
      wanted.delete(each);
      await each();
      await breathe();
    }
  } finally {
    drawing = false;
  }
}

const tooltip = signal<{ value: unknown; x: number; y: number } | null>(null);

/** The tooltip of a mark: like Vega's, but with values as text. */
export function Tooltip() {
  const box = useRef<HTMLDivElement>(null);
  const shown = tooltip.value;
  useEffect(() => {
    if (!shown || !box.current) return;
    const { width, height } = box.current.getBoundingClientRect();
    const left = Math.min(shown.x + 12, innerWidth - width - 8);
    const below = shown.y + 16;
    const top = below + height > innerHeight ? shown.y - height - 10 : below;
    box.current.style.transform = `translate(${Math.max(8, left)}px, ${Math.max(8, top)}px)`;
  });
  if (!shown) return null;
  const { value } = shown;
  return (
    <div class="tooltip" role="tooltip" ref={box}>
      {typeof value === "object" ? (
        <dl>
          {Object.entries(value as object).map(([name, each]) => [
            <dt key={`${name} `}><T t={name} /></dt>,
            <dd key={name}><T t={String(each)} /></dd>,
          ])}
        </dl>
      ) : (
        <T t={String(value)} />
      )}
    </div>
  );
}

export function FigureCard({ figure }: { figure: Figure }) {
  const card = useRef<HTMLElement>(null);
  const place = useRef<HTMLDivElement>(null);
  const view = useRef<Result>(undefined);
  const drawn = useRef<Promise<void>>(undefined);
  const id = `figure-${figure.name}`;

  const draw = async () => {
    if (place.current && window.harnessCharts && known) await (drawn.current = render(place.current));
  };
  const render = async (place: HTMLElement) => {
    view.current?.finalize();
    // In a separate element, because Vega changes the one that it draws in.
    const canvas = document.createElement("div");
    canvas.ariaHidden = "true";
    place.replaceChildren(canvas);
    view.current = await window.harnessCharts!(canvas, figure.chart, {
      config: known![dark.value ? "dark" : "light"] as never,
      tooltip: (_: unknown, event: MouseEvent, __: unknown, value: unknown) => {
        tooltip.value = value == null || value === "" ? null : { value, x: event.clientX, y: event.clientY };
      },
    });
    place.classList.add("drawn");
  };

  useEffect(() => {
    all.add(draw);
    void library();
    const near = new IntersectionObserver(
      ([entry]) => {
        if (!entry?.isIntersecting) return;
        near.disconnect();
        void want(() => drawn.current ?? draw());
      },
      { rootMargin: "400px" },
    );
    near.observe(place.current!);
    const heights = new ResizeObserver(() => {
      // As many rows of the grid as the height needs leave no gaps.
      const height = card.current!.getBoundingClientRect().height + GAP;
      card.current!.style.gridRowEnd = `span ${Math.ceil(height / ROW)}`;
    });
    heights.observe(card.current!, { box: "border-box" });
    const redraw = effect(() => {
      if (dark.value !== undefined && !printing.peek() && view.current) void want(draw);
    });
    return () => {
      all.delete(draw);
      near.disconnect();
      heights.disconnect();
      redraw();
      view.current?.finalize();
    };
  }, [figure]);

  const download = async (kind: "svg" | "png") => {
    await library();
    await (drawn.current ?? draw());
    const { view: shown } = view.current!;
    // With the page's background, since the theme's is transparent.
    const ground = shown.background();
    shown.background(getComputedStyle(document.body).backgroundColor);
    const link = document.createElement("a");
    link.download = `${figure.name}.${kind}`;
    if (kind === "png") link.href = await shown.toImageURL("png", 2);
    else {
      link.href = URL.createObjectURL(new Blob([await shown.toSVG()], { type: "image/svg+xml" }));
      setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
    }
    shown.background(ground);
    link.click();
  };

  const ofFigure = <span class="hidden"> of <T t={figure.title} /></span>;
  return (
    <figure id={id} ref={card} aria-labelledby={`${id}-title`}>
      <h3 id={`${id}-title`}><T t={figure.title} /></h3>
      <div class="chart" role="img" aria-label={visible(figure.title)} ref={place} />
      <figcaption><T t={figure.caption} /></figcaption>
      <div class="beside">
        <details>
          <summary>Numbers{ofFigure}</summary>
          <DataTable table={figure.table} name={figure.name} hideTitle />
        </details>
        <div class="downloads">
          {(["svg", "png"] as const).map((kind) => (
            <button key={kind} type="button" class="quiet" data-download={kind} onClick={() => void download(kind)}>
              {kind.toUpperCase()}{ofFigure}
            </button>
          ))}
        </div>
      </div>
    </figure>
  );
}
