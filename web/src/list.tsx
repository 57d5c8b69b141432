/* A long list of rows of equal height: only the visible ones exist as elements. */

import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

/** Browsers cannot position elements much further down than this. */
const MOST_PIXELS = 15_000_000;
const BEYOND = 6;

interface Props {
  label: string;
  count: number;
  height: number;
  /** Columns of a row, which have cells. */
  columns: number;
  /** The active cell: its row and its column. */
  active: [number, number];
  head: ComponentChildren;
  draw: (at: number) => ComponentChildren;
  onActive: (row: number, column: number) => void;
  onOpen: (row: number, column: number) => void;
}

export const cellId = (row: number, column: number) => `cell-${row}-${column}`;

export function List({ label, count, height, columns, active, head, draw, onActive, onOpen }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const heads = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, room: 600, header: 0 });
  const total = count * height;
  const pixels = Math.min(total, MOST_PIXELS);
  const room = view.room - view.header;
  // If the list is too long, a pixel of scrolling moves it by several pixels.
  const factor = total > pixels ? (total - room) / (pixels - room) : 1;

  useEffect(() => {
    let waiting = false;
    const measure = () => {
      waiting = false;
      if (!box.current) return;
      const { scrollTop: top, clientHeight: room } = box.current;
      const header = heads.current!.offsetHeight;
      setView((old) => (old.top === top && old.room === room && old.header === header ? old : { top, room, header }));
    };
    const soon = () => {
      if (!waiting) requestAnimationFrame(measure);
      waiting = true;
    };
    const element = box.current!;
    element.addEventListener("scroll", soon, { passive: true });
    const sizes = new ResizeObserver(soon);
    sizes.observe(element);
    measure();
    return () => {
      element.removeEventListener("scroll", soon);
      sizes.disconnect();
    };
  }, []);

  /** Scroll the active row into view, if it is not. */
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    const from = active[0] * height;
    const top = element.scrollTop * factor;
    if (from < top) element.scrollTop = from / factor;
    else if (from > top + room - height) element.scrollTop = (from - room + height) / factor;
    const cell = document.getElementById(cellId(...active));
    if (!cell || !active[1]) return;
    const hidden = (cell.parentElement!.firstElementChild as HTMLElement).offsetWidth; // it stays in view
    const left = Math.min(element.scrollLeft, cell.offsetLeft - hidden);
    element.scrollLeft = Math.max(left, cell.offsetLeft + cell.offsetWidth - element.clientWidth);
  }, [active[0], active[1], height, room]);

  const top = view.top * factor;
  const first = Math.max(0, Math.floor(top / height) - BEYOND);
  const end = Math.min(count, Math.ceil((top + view.room) / height) + BEYOND);
  const key = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !count || event.target !== box.current) return;
    const page = Math.max(1, Math.floor(room / height) - 1);
    const [row, column] = active;
    const rows: Record<string, number> = {
      ArrowDown: row + 1, ArrowUp: row - 1, PageDown: row + page, PageUp: row - page, Home: 0, End: count - 1,
    };
    const to = rows[event.key];
    const beside = { ArrowRight: column + 1, ArrowLeft: column - 1 }[event.key];
    if (to !== undefined) onActive(Math.min(Math.max(0, to), count - 1), column);
    else if (beside !== undefined) onActive(row, Math.min(Math.max(0, beside), columns - 1));
    else if (event.key === "Enter" || event.key === " ") onOpen(row, column);
    else return;
    event.preventDefault();
  };
  const rows = [];
  for (let at = first; at < end; at++) {
    const style = { transform: `translateY(${at * height - top + view.top}px)`, height: `${height}px` };
    rows.push(
      <div class="row" role="row" key={at} style={style} aria-rowindex={at + 2} data-at={at}>
        {draw(at)}
      </div>,
    );
  }
  const click = (event: MouseEvent) => {
    const cell = (event.target as Element).closest<HTMLElement>("[id^=cell-]");
    if (!cell) return;
    const [, row, column] = cell.id.split("-").map(Number);
    onActive(row!, column!);
    onOpen(row!, column!);
  };
  const there = active[0] >= first && active[0] < end && count > 0;
  return (
    <div
      id="list" class="list" role="grid" tabIndex={0} ref={box} onKeyDown={key} onClick={click}
      style={{ "--rows": `${total + view.header + 4}px` }}
      aria-label={label} aria-rowcount={count + 1} aria-colcount={columns} aria-describedby="keys"
      aria-activedescendant={there ? cellId(...active) : undefined}
    >
      <div class="row heads" role="row" aria-rowindex={1} ref={heads}>{head}</div>
      <div class="rows" role="rowgroup">
        <div class="height" style={{ height: `${pixels}px` }} role="presentation" />
        {rows}
      </div>
    </div>
  );
}
