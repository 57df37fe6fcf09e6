// An icicle on canvas. A cell is chosen with the pointer or the arrow keys; Enter zooms to it,
// Escape back. The strip below and a table for screen readers say what is drawn.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { type Cell, type FlameTree, layOut, pathTo } from "../data/flame";
import { nameParts, plural, share } from "../format";
import { color } from "./colors";
import { copyText } from "./copy";

const ROW = 22;
/** A canvas that is taller, in pixels of the screen, is not drawn as a whole: browsers limit its
 * height (Chromium to 65,535), and it takes memory. */
const TALLEST = 8192;

/** The label of a run of library frames. */
export function foldedLabel(tree: FlameTree, node: number): string {
  const [least, most] = tree.folded(node);
  return least === most ? `⋯ ${plural(most, "library frame")}` : `⋯ ${least}–${most} library frames`;
}

/** What a graph looks like. */
export interface Look {
  label: (node: number) => string;
  /** What is drawn before the label. */
  mark?: (node: number) => string;
  /** Where the function of a node is; may be empty. */
  place: (node: number) => string;
  /** Its value in words. */
  amount: (node: number) => string;
  /** The colour of a cell; `ink` gives a colour by its name in style.css, `hatch` lines of one
   * on another. */
  fill: (node: number, row: number, ink: (name: string) => string, hatch: Hatch) => string | CanvasPattern;
}

type Hatch = (ground: string, line: string) => string | CanvasPattern;

interface GraphProps {
  tree: FlameTree;
  zoomed: number;
  /** Groups that were searched for. */
  found: Set<number> | null;
  weights: Float64Array;
  look: Look;
  from: "main" | "allocation";
  /** Raised when colours change. */
  theme: number;
  say: (text: string) => void;
  /** Called with the keys from the root to the node that is to fill the graph. */
  onZoom: (keys: number[]) => void;
}

export function Graph({ tree, zoomed, found, weights, look, from, theme, say, onZoom }: GraphProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const frame = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  // The first row that is drawn, if not all are.
  const [first, setFirst] = useState(0);
  const [chosen, setChosen] = useState(zoomed);
  const path = useMemo(() => pathTo(tree, zoomed), [tree, zoomed]);
  const cells = useMemo(() => (width > 0 ? layOut(tree, path, width) : []), [tree, path, width, weights]);
  const rows = cells.reduce((most, cell) => Math.max(most, cell.row + 1), 1);
  const isWhole = rows * ROW * devicePixelRatio <= TALLEST;
  const drawn = isWhole ? rows : Math.min(rows, Math.ceil(innerHeight / ROW) + 2);
  const top = isWhole ? 0 : Math.min(first, rows - drawn);
  const { label } = look;
  const at = cells.find((cell) => cell.node === chosen) ?? cells.find((cell) => cell.node === zoomed);

  useEffect(() => setChosen(zoomed), [tree, zoomed]);
  useLayoutEffect(() => {
    const target = canvas.current!;
    setWidth(target.clientWidth);
    const observer = new ResizeObserver(() => setWidth(target.clientWidth));
    observer.observe(target);
    return () => observer.disconnect();
  }, [theme]);
  useLayoutEffect(() => {
    const visible = cells.filter((it) => it.row >= top && it.row < top + drawn);
    if (width > 0) draw(canvas.current!, { look, tree, cells: visible, top, rows: drawn, width, found, chosen: at?.node ?? -1 });
  }, [cells, found, at?.node, theme, top, drawn]);
  useEffect(() => {
    if (isWhole) return;
    const follow = () => setFirst(Math.max(0, Math.floor(-frame.current!.getBoundingClientRect().top / ROW)));
    follow();
    addEventListener("scroll", follow, { passive: true });
    return () => removeEventListener("scroll", follow);
  }, [isWhole, cells]);

  const zoom = (node: number) => {
    const to = node === zoomed && node !== 0 ? tree.parent(node) : node;
    onZoom(pathTo(tree, to).slice(1).map((it) => tree.key(it)));
  };
  const under = (event: MouseEvent) => {
    const row = top + Math.floor(event.offsetY / ROW);
    return cells.find((cell) => cell.row === row && event.offsetX >= cell.x && event.offsetX < cell.x + cell.width);
  };
  const copy = (node: number) => copyStack(look, tree, node, from, say);
  const onKey = (event: KeyboardEvent) => {
    if (!at || event.altKey || event.ctrlKey || event.metaKey) return;
    const next = neighbour(cells, at, event.key);
    if (next) {
      setChosen(next.node);
      if (!isWhole) showRow(frame.current!, next.row);
    } else if (event.key === "Enter" || event.key === " ") zoom(at.node);
    else if (event.key === "c") copy(at.node);
    else return;
    event.preventDefault();
  };
  const value = at ? tree.value(at.node) : 0;
  const children = tree.children(zoomed).slice(0, 50);
  return (
    <>
      <div ref={frame} class="flame-rows" style={{ height: `${rows * ROW}px` }}>
        <canvas
          ref={canvas}
          class="flame"
          tabIndex={0}
          role="application"
          aria-label="Flame graph: arrows choose a cell, Enter zooms, Escape goes back"
          aria-describedby="chosen"
          data-cells={cells.length}
          data-top={top}
          style={{ height: `${drawn * ROW}px`, marginTop: `${top * ROW}px` }}
          onMouseMove={(event) => setChosen(under(event)?.node ?? zoomed)}
          onMouseLeave={() => setChosen(zoomed)}
          onClick={(event) => {
            const cell = under(event);
            if (cell) zoom(cell.node);
          }}
          onKeyDown={onKey}
        />
      </div>
      <p class="strip" id="chosen" aria-live="polite">
        {at && (
          <>
            <code title={label(at.node)}>
              {look.mark?.(at.node)}
              {label(at.node)}
            </code> <span class="place">{look.place(at.node)}</span>
            <span class="end">
              <b>{look.amount(at.node)}</b> {share(value, tree.value(0))}
              {zoomed !== 0 && ` · ${share(value, tree.value(zoomed))} of the zoomed`}
            </span>
          </>
        )}
      </p>
      <p class="tools">
        {zoomed !== 0 && (
          <button type="button" onClick={() => onZoom([])}>
            Back to the whole <kbd>Esc</kbd>
          </button>
        )}
        <button type="button" onClick={() => copy(at?.node ?? zoomed)}>
          Copy the stack <kbd>c</kbd>
        </button>
      </p>
      <div class="hidden">
        <table>
          <caption>What {label(zoomed)} {from === "main" ? "calls" : "is called by"}</caption>
          <tbody>
            {children.map((child) => (
              <tr key={child}>
                <td>{label(child)}</td>
                <td>{look.amount(child)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}

/** Copies the functions from a node outwards, as text. */
function copyStack(look: Look, tree: FlameTree, node: number, from: "main" | "allocation", say: (text: string) => void): void {
  const nodes = pathTo(tree, node).slice(1);
  if (from === "main") nodes.reverse();
  const lines = nodes.map((it) => {
    const place = tree.key(it) >= 0 ? look.place(it) : "";
    return place === "" ? look.label(it) : `${look.label(it)}  ${place}`;
  });
  copyText(lines.join("\n"), say);
}

/** The cell that an arrow leads to, by geometry. */
function neighbour(cells: Cell[], from: Cell, key: string): Cell | undefined {
  const middle = from.x + from.width / 2;
  const inRow = (row: number) => cells.filter((it) => it.row === row).sort((a, b) => a.x - b.x);
  switch (key) {
    case "ArrowDown":
      return inRow(from.row + 1).find((it) => it.x + it.width > from.x + 0.01 && it.x < from.x + from.width);
    case "ArrowUp":
      return inRow(from.row - 1).find((it) => it.x <= middle && it.x + it.width >= middle);
    case "ArrowRight":
      return inRow(from.row).find((it) => it.x > from.x);
    case "ArrowLeft":
      return inRow(from.row).filter((it) => it.x < from.x).pop();
    default:
      return undefined;
  }
}

/** Scrolls the page so that a row is in it. */
function showRow(frame: HTMLElement, row: number): void {
  const y = frame.getBoundingClientRect().top + row * ROW;
  const [least, most] = [4 * ROW, innerHeight - 6 * ROW];
  if (y < least) scrollBy(0, y - least);
  else if (y > most) scrollBy(0, y - most);
}

interface Drawing {
  look: Look;
  tree: FlameTree;
  /** Those in the rows that are drawn. */
  cells: Cell[];
  /** The first row that is drawn, and how many are. */
  top: number;
  rows: number;
  width: number;
  found: Set<number> | null;
  chosen: number;
}

function draw(canvas: HTMLCanvasElement, { look, tree, cells, top, rows, width, found, chosen }: Drawing): void {
  const scale = devicePixelRatio;
  canvas.width = width * scale;
  canvas.height = rows * ROW * scale;
  const context = canvas.getContext("2d")!;
  context.scale(scale, scale);
  context.translate(0, -top * ROW);
  context.textBaseline = "middle";
  const inks = new Map<string, string>();
  const hatches = new Map<string, CanvasPattern | string>();
  const once = <T,>(all: Map<string, T>, key: string, make: () => T): T => {
    if (!all.has(key)) all.set(key, make());
    return all.get(key)!;
  };
  const ink = (name: string) => once(inks, name, () => color(name));
  const hatch: Hatch = (ground, line) => once(hatches, `${ground} ${line}`, () => hatching(context, ink(ground), ink(line)));
  const chosenKey = chosen >= 0 ? tree.key(chosen) : -1;
  for (const { node, row, x, width: wide } of cells) {
    const key = tree.key(node);
    const isFound = found !== null && key >= 0 && found.has(key);
    context.globalAlpha = found !== null && !isFound ? 0.55 : 1;
    context.fillStyle = isFound ? ink("found") : look.fill(node, row, ink, hatch);
    const inner = Math.max(wide - 1, 0.5);
    context.fillRect(x, row * ROW, inner, ROW - 2);
    context.globalAlpha = 1;
    if (isFound && wide > 2) {
      context.strokeStyle = ink("found-line");
      context.strokeRect(x + 0.5, row * ROW + 0.5, inner - 1, ROW - 3);
    }
    if (node === chosen || (key >= 0 && key === chosenKey && wide > 2)) {
      context.strokeStyle = ink("accent");
      context.lineWidth = node === chosen ? 2 : 1;
      context.strokeRect(x + 1, row * ROW + 1, Math.max(inner - 2, 1), ROW - 4);
      context.lineWidth = 1;
    }
    if (wide < 28) continue;
    context.fillStyle = isFound ? ink("found-ink") : ink("text1");
    context.font = `${isFound ? "600 " : ""}12px ui-monospace, monospace`;
    const mark = look.mark?.(node) ?? "";
    const text = mark + fitting(look.label(node), wide - 10 - mark.length * CHARACTER);
    if (text !== "") context.fillText(text, x + 5, row * ROW + (ROW - 2) / 2 + 0.5);
  }
}

/** Width of a character of the monospaced labels, in pixels. */
const CHARACTER = 7.23;

/** As much of a label as fits: without its type before without its end. */
function fitting(label: string, room: number): string {
  const most = Math.floor(room / CHARACTER);
  const [before, last] = label.startsWith("⋯") ? ["", label] : nameParts(label);
  const candidates = [`${before}${last}`, last];
  const whole = candidates.find((it) => it.length <= most);
  if (whole !== undefined) return whole;
  return most >= 3 ? `${last.slice(0, most - 1)}…` : "";
}

function hatching(context: CanvasRenderingContext2D, ground: string, line: string): CanvasPattern | string {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 8;
  const ink = tile.getContext("2d");
  if (!ink) return ground;
  ink.fillStyle = ground;
  ink.fillRect(0, 0, 8, 8);
  ink.strokeStyle = line;
  ink.lineWidth = 1.2;
  ink.beginPath();
  for (const at of [-4, 0, 4, 8, 12]) {
    ink.moveTo(at - 4, 12);
    ink.lineTo(at + 8, 0);
  }
  ink.globalAlpha = 0.8;
  ink.stroke();
  return context.createPattern(tile, "repeat") ?? ground;
}
