// A table that sorts by its headings and shows its first rows; more on request. Rows that
// open are buttons for the keyboard, too.

import type { ComponentChildren } from "preact";
import { Fragment } from "preact";
import { useState } from "preact/hooks";

export interface Column<T> {
  key: string;
  title: string;
  /** More about it than there is room for in the title. */
  hint?: string;
  /** By what it sorts; a column without it does not. */
  value?: (row: T) => number | string;
  cell: (row: T) => ComponentChildren;
  /** Left-aligned text. */
  text?: boolean;
  /** Left out where there is little room. */
  wide?: boolean;
  /** A class of its cells. */
  kind?: string;
}

interface Props<T> {
  caption: string;
  rows: T[];
  rowKey: (row: T) => string;
  columns: Column<T>[];
  /** The column by which it is sorted, with a minus for the least first. */
  sort: string;
  onSort: (sort: string) => void;
  open?: string;
  onOpen?: (key: string) => void;
  /** Whether a row opens; without it all do. */
  opens?: (row: T) => boolean;
  detail?: (row: T) => ComponentChildren;
  empty?: string;
  /** Rows that are shown at first. */
  first?: number;
}

/** A column of the whole run, in a table that has columns of a range, too. */
export function ofRun<T>(column: Column<T>): Column<T> {
  return { ...column, title: `${column.title} (run)`, hint: "Of the whole run, not of the range" };
}

export function sorted<T>(rows: T[], columns: Column<T>[], sort: string): T[] {
  const isLeastFirst = sort.startsWith("-");
  const column = columns.find((it) => it.key === sort.replace(/^-/, ""));
  if (!column?.value) return rows;
  const values = new Map(rows.map((row) => [row, column.value!(row)]));
  const order = (a: T, b: T) => {
    const [x, y] = [values.get(a)!, values.get(b)!];
    return typeof x === "string" ? x.localeCompare(String(y)) : Number(y) - Number(x);
  };
  return [...rows].sort((a, b) => (isLeastFirst ? -order(a, b) : order(a, b)));
}

export function Table<T>(props: Props<T>) {
  const { rows, columns, sort, open = "", onOpen, detail } = props;
  const [more, setMore] = useState(0);
  const all = sorted(rows, columns, sort);
  const at = all.findIndex((row) => props.rowKey(row) === open);
  // The open row is shown wherever it is.
  const most = Math.max((props.first ?? 50) + more, at + 1);
  const heading = (column: Column<T>) => {
    const isSorted = sort.replace(/^-/, "") === column.key;
    const order = !isSorted ? "none" : (sort.startsWith("-") !== Boolean(column.text)) ? "ascending" : "descending";
    const next = isSorted && !sort.startsWith("-") ? `-${column.key}` : column.key;
    const mark = !isSorted ? "" : order === "ascending" ? " ↑" : " ↓";
    return (
      <th key={column.key} scope="col" class={classes(column)} title={column.hint} aria-sort={column.value ? order : undefined}>
        {column.value ? (
          <button type="button" class={isSorted ? "sorted" : ""} onClick={() => props.onSort(next)}>
            {column.title}
            {mark}
          </button>
        ) : (
          column.title
        )}
      </th>
    );
  };
  return (
    <div class="table">
      <table>
        <caption class="hidden">{props.caption}</caption>
        <thead>
          <tr>{columns.map(heading)}</tr>
        </thead>
        <tbody>
          {all.slice(0, most).map((row) => {
            const key = props.rowKey(row);
            const isOpen = key === open && detail !== undefined;
            const toggle = onOpen && (props.opens?.(row) ?? true) ? () => onOpen(isOpen ? "" : key) : undefined;
            return (
              <Fragment key={key}>
                <tr class={`${toggle ? "opens" : ""} ${isOpen ? "open" : ""}`} data-row={key} onClick={toggle}>
                  {columns.map((column, i) => (
                    <td key={column.key} class={classes(column)}>
                      {i === 0 && toggle ? (
                        <button
                          type="button"
                          class="row"
                          aria-expanded={isOpen}
                          onClick={(event) => {
                            event.stopPropagation();
                            toggle();
                          }}
                        >
                          {column.cell(row)}
                        </button>
                      ) : (
                        column.cell(row)
                      )}
                    </td>
                  ))}
                </tr>
                {isOpen && (
                  <tr class="detail">
                    <td colSpan={columns.length}>{detail(row)}</td>
                  </tr>
                )}
              </Fragment>
            );
          })}
        </tbody>
      </table>
      {all.length === 0 && <p class="quiet">{props.empty ?? "Nothing."}</p>}
      {all.length > most && (
        <p class="quiet">
          {(all.length - most).toLocaleString("en-US")} more.{" "}
          <button type="button" class="link" onClick={() => setMore(more + 200)}>
            Show more
          </button>
        </p>
      )}
    </div>
  );
}

function classes<T>(column: Column<T>): string {
  return [column.text ? "text" : "number", column.wide ? "wide" : "", column.kind ?? ""].filter(Boolean).join(" ");
}
