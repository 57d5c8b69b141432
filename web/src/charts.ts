/* Vega, in a script of its own: only pages with figures have it. */

import embed, { type EmbedOptions, type Result } from "vega-embed";

export type Draw = (canvas: HTMLElement, chart: object, options: EmbedOptions) => Promise<Result>;
declare global {
  interface Window { harnessCharts?: Draw }
}

const options: EmbedOptions = {
  mode: "vega-lite",
  renderer: "svg",
  ast: true, // an interpreter, since the page's policy forbids generated code
  actions: false,
  defaultStyle: false,
  // A chart must not load any URL, whatever its data contain.
  loader: {
    load: () => Promise.reject(new Error("A report loads nothing.")),
    sanitize: () => Promise.reject(new Error("A report links to nothing.")),
  } as unknown as EmbedOptions["loader"],
  // Warnings are meant for authors of charts; a reader can do nothing about them.
  logLevel: 1,
};

window.harnessCharts = (canvas, chart, more) => embed(canvas, chart as never, { ...options, ...more });
