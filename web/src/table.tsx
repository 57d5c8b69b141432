/* Tables that can be sorted by any column. */

import type { ComponentChildren } from "preact";
import type { Cell, Table, TableRow } from "./model";
import { go, state } from "./state";
import { T, visible } from "./text";

const collator = new Intl.Collator("en", { numeric: true });
type Key = string | number | null | undefined;
type Direction = "ascending" | "descending" | undefined;

/** A table's order, which is part of the page's link. */
export interface Order {
  of(column: number): Direction;
  /** Sort by a column, in the other direction, or not at all. `first`: the largest first. */
  press(column: number, first: boolean, event: Event): void;
  sorted<Row>(rows: Row[], key: (row: Row, column: number) => Key): Row[];
}

/** The order of the table with a title. Unknown values come last, whichever way one sorts. */
export function orderOf(title: string): Order {
  const chosen = state.value.tables.get(title) ?? "";
  const [column, down] = [chosen ? Math.abs(Number(chosen)) - 1 : -1, chosen.startsWith("-")];
  return {
    of: (each) => (each === column ? (down ? "descending" : "ascending") : undefined),
    press(each, first, event) {
      const tables = new Map(state.value.tables);
      if (each === column && down !== first) tables.delete(title);
      else tables.set(title, `${(each === column ? !down : first) ? "-" : ""}${each + 1}`);
      const place = (event.currentTarget as Element).closest("section[id]")?.id ?? "main";
      go({ tables, place });
    },
    sorted: (rows, key) => (column < 0 ? rows : sorted(rows, (row) => key(row, column), down)),
  };
}

function sorted<Row>(rows: Row[], key: (row: Row) => Key, down: boolean): Row[] {
  const sign = down ? -1 : 1;
  return rows.toSorted((one, other) => {
    const [a, b] = [key(one) ?? null, key(other) ?? null];
    if (a === null || b === null) return Number(a === null) - Number(b === null);
    if (typeof a === "number" && typeof b === "number") return sign * (a - b);
    return sign * collator.compare(String(a), String(b));
  });
}

export function Badges({ marks }: { marks?: string[] }) {
  return <>{marks?.map((mark) => <span class="badge" key={mark}><T t={mark} /></span>)}</>;
}

/** What groups with short names have in common, by name (overview.groups). */
export const meanings = new Map<string, string>();

function TableCell({ cell, name, numeric, marks, label }: { cell: Cell; name: boolean; numeric: boolean; marks?: string[]; label?: string }) {
  const title = cell.title ? visible(cell.title) : undefined;
  // Links lead to other parts of the page only, whatever the data say.
  const inside = cell.href?.startsWith("#") ? <a href={cell.href}><T t={cell.text} /></a> : <T t={cell.text} />;
  const meaning = name && meanings.get(cell.text);
  const kind = `${numeric ? "figure" : ""} ${cell.style ?? ""}`.trim() || undefined;
  if (name) return <th scope="row" class={kind} title={title}>{meaning ? <abbr title={visible(meaning)}>{inside}</abbr> : inside} <Badges marks={marks} /></th>;
  return <td class={kind} title={title} data-label={label}>{inside}</td>;
}

export function SortButton({ heading, sort, onSort }: { heading: ComponentChildren; sort: Direction; onSort: (event: Event) => void }) {
  return (
    <button type="button" class="sort" onClick={onSort}>
      {typeof heading === "string" ? <T t={heading} /> : heading}
      <span aria-hidden="true">{sort === "ascending" ? " ↑" : sort === "descending" ? " ↓" : ""}</span>
    </button>
  );
}

/** `stacked`: on narrow screens, the cells of a row stand below its name. */
export function DataTable({ table, name, hideTitle, stacked }: { table: Table; name?: string; hideTitle?: boolean; stacked?: boolean }) {
  const order = orderOf(name ?? table.title);
  const { columns, names } = table;
  const over = columns.some((column) => column.over);
  const key = ({ cells }: TableRow, column: number): Key => {
    const cell = cells[column];
    return cell?.sort === undefined ? (cell?.text ?? "") : cell.sort;
  };
  const row = (each: TableRow, at: number) => (
    <tr key={at}>
      {each.cells.map((cell, column) => (
        <TableCell
          key={column}
          cell={cell}
          name={column === 0}
          numeric={column >= names && Boolean(columns[column]?.numeric)}
          marks={column === 0 ? each.marks : undefined}
          label={stacked ? visible(columns[column]!.heading) : undefined}
        />
      ))}
    </tr>
  );
  const rows = table.rows.length > 1;
  return (
    <Foldable title={table.folded ? table.title : ""}>
      <div class="scroll" tabIndex={0} role="region" aria-label={visible(table.title)}>
        <table class={stacked ? "stacked" : undefined}>
          <caption class={hideTitle || table.folded ? "hidden" : undefined}><T t={table.title} /></caption>
          {!table.headless && (
            <thead>
              {over && <tr class="over">{overs(table).map(([heading, span], at) => heading ? <th key={at} scope="colgroup" colSpan={span}><T t={heading} /></th> : <td key={at} colSpan={span} />)}</tr>}
              <tr>
                {columns.map(({ heading, numeric }, column) => {
                  if (!heading) return <td key={column} />;
                  const sort = order.of(column);
                  // The largest numbers come first, but names from A.
                  return (
                    <th key={column} scope="col" class={numeric ? "figure" : undefined} aria-sort={sort}>
                      {rows ? <SortButton heading={heading} sort={sort} onSort={(event) => order.press(column, Boolean(numeric), event)} /> : <T t={heading} />}
                    </th>
                  );
                })}
              </tr>
            </thead>
          )}
          <tbody>{order.sorted(table.rows, key).map(row)}</tbody>
          {table.footer && <tfoot>{row(table.footer, 0)}</tfoot>}
        </table>
      </div>
      {table.notes?.map((note, at) => <p class="note" key={at}><T t={note} /></p>)}
    </Foldable>
  );
}

function Foldable({ title, children }: { title: string; children: ComponentChildren }) {
  return title ? <details><summary><T t={title} /></summary>{children}</details> : <>{children}</>;
}

/** Headings over neighbouring columns, with their numbers of columns. */
function overs({ columns }: Table): [string, number][] {
  const found: [string, number][] = [];
  for (const { over = "" } of columns) {
    const last = found.at(-1);
    if (last && last[0] === over) last[1]++;
    else found.push([over, 1]);
  }
  return found;
}
