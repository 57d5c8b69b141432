/* Tables that can be sorted by any column. */

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { Cell, Table, TableRow } from "./model";
import { T, visible } from "./text";

type Sort = { column: number; down: boolean } | null;

const collator = new Intl.Collator("en", { numeric: true });

/** Compare cells; unknown values come last, whichever way one sorts. */
function sorted(rows: TableRow[], sort: Sort): TableRow[] {
  if (!sort) return rows;
  const key = (row: TableRow) => {
    const cell = row.cells[sort.column];
    return cell?.sort === undefined ? (cell?.text ?? "") : cell.sort;
  };
  const sign = sort.down ? -1 : 1;
  return rows.toSorted((one, other) => {
    const [a, b] = [key(one), key(other)];
    if (a === null || b === null) return Number(a === null) - Number(b === null);
    if (typeof a === "number" && typeof b === "number") return sign * (a - b);
    return sign * collator.compare(String(a), String(b));
  });
}

export function Badges({ marks }: { marks?: string[] }) {
  return <>{marks?.map((mark) => <span class="badge" key={mark}><T t={mark} /></span>)}</>;
}

function TableCell({ cell, name, numeric, marks }: { cell: Cell; name: boolean; numeric: boolean; marks?: string[] }) {
  const title = cell.title ? visible(cell.title) : undefined;
  // Links lead to other parts of the page only, whatever the data say.
  const inside = cell.href?.startsWith("#") ? <a href={cell.href}><T t={cell.text} /></a> : <T t={cell.text} />;
  const kind = `${numeric ? "figure" : ""} ${cell.style ?? ""}`.trim() || undefined;
  if (name) return <th scope="row" class={kind} title={title}>{inside} <Badges marks={marks} /></th>;
  return <td class={kind} title={title}>{inside}</td>;
}

export function SortButton({ heading, sort, onSort }: { heading: string; sort: "ascending" | "descending" | undefined; onSort: () => void }) {
  return (
    <button type="button" class="sort" onClick={onSort}>
      <T t={heading} />
      <span aria-hidden="true">{sort === "ascending" ? " ↑" : sort === "descending" ? " ↓" : ""}</span>
    </button>
  );
}

export function DataTable({ table, hideTitle }: { table: Table; hideTitle?: boolean }) {
  const [sort, setSort] = useState<Sort>(null);
  const { columns, names } = table;
  const over = columns.some((column) => column.over);
  const press = (column: number) => {
    const first = Boolean(columns[column]!.numeric); // the largest numbers first, but names from A
    if (sort?.column !== column) setSort({ column, down: first });
    else setSort(sort.down === first ? { column, down: !first } : null);
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
        />
      ))}
    </tr>
  );
  const rows = table.rows.length > 1;
  return (
    <Foldable title={table.folded ? table.title : ""}>
      <div class="scroll" tabIndex={0} role="region" aria-label={visible(table.title)}>
        <table>
          <caption class={hideTitle || table.folded ? "hidden" : undefined}><T t={table.title} /></caption>
          {!table.headless && (
            <thead>
              {over && <tr class="over">{overs(table).map(([heading, span], at) => heading ? <th key={at} scope="colgroup" colSpan={span}><T t={heading} /></th> : <td key={at} colSpan={span} />)}</tr>}
              <tr>
                {columns.map(({ heading, numeric }, column) => {
                  const state = sort?.column === column ? (sort.down ? "descending" : "ascending") : undefined;
                  return (
                    <th key={column} scope="col" class={numeric ? "figure" : undefined} aria-sort={state}>
                      {rows && heading ? <SortButton heading={heading} sort={state} onSort={() => press(column)} /> : <T t={heading} />}
                    </th>
                  );
                })}
              </tr>
            </thead>
          )}
          <tbody>{sorted(table.rows, sort).map(row)}</tbody>
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
