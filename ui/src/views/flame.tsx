// The flame graph: an icicle on canvas, from main or from what allocates. A cell is chosen
// with the pointer or the arrow keys; Enter zooms to it, Escape back. The strip below and a
// table for screen readers say what is drawn.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { type App, useApp } from "../app";
import { type Cell, type FlameTree, FromAllocation, FromMain, foundValue, layOut, nodeAt, pathTo } from "../data/flame";
import { ORIGIN, type Recording } from "../data/recording";
import { MODE_NAMES } from "../data/ranges";
import { bytes, count, nameParts, plural, share } from "../format";
import { Choice } from "../parts/choice";
import { color } from "../parts/colors";
import { Search } from "../parts/search";
import type { Weight } from "../state";
import { isOwn } from "./overview";

const ROW = 22;

/** Trees are made once: their shape does not change. */
const trees = new Map<string, FlameTree>();

function treeOf(recording: Recording, from: "main" | "allocation", library: boolean): FlameTree {
  const key = `${from} ${library}`;
  let tree = trees.get(key);
  if (!tree) {
    tree = from === "main" ? new FromMain(recording, library) : new FromAllocation(recording, library);
    trees.set(key, tree);
  }
  return tree;
}

/** The weights that this recording knows, with their names. */
function weightsOf({ recording, state }: App): [Weight, string][] {
  if (recording.meta.kind === "sampled") {
    return [["leaked", "Live"], ["bytes", "Bytes"], ["allocations", "Allocations"]];
  }
  return [
    ["allocations", "Allocations"],
    ["bytes", "Bytes"],
    ["peak", "At the peak"],
    ["range", state.range ? MODE_NAMES[state.mode] : "In the range"],
    ["leaked", "Leaked"],
    ["temporary", "Temporary"],
  ];
}

export function Flame() {
  const app = useApp();
  const { recording, state, model, set } = app;
  const weight = recording.meta.kind === "sampled" && !["leaked", "bytes", "allocations"].includes(state.weight) ? "leaked" : state.weight;
  const weights = model.weights({ ...state, weight }, weight);
  const tree = treeOf(recording, state.from, state.library);
  useMemo(() => tree.setWeights(weights), [tree, weights]);
  const zoomed = useMemo(() => nodeAt(tree, state.zoom), [tree, weights, state.zoom.join()]);
  const found = useMemo(() => search(recording, state.search), [recording, state.search]);
  const foundPart = useMemo(() => (found ? foundValue(recording, found, weights) : 0), [found, weights]);
  const whole = tree.value(0);
  const amount = (value: number) => (weight === "allocations" || weight === "temporary" ? count(value) : bytes(value));
  return (
    <>
      <h1 class="hidden">Flame graph</h1>
      <div class="tools">
        <Choice label="Width" values={weightsOf(app)} value={weight} onChange={(it) => set({ weight: it })} />
        <Choice
          label="Direction"
          values={[
            ["main", "From main"],
            ["allocation", "From the allocation"],
          ]}
          value={state.from}
          onChange={(from) => set({ from, zoom: [] })}
        />
        <Search>{found ? `${plural(found.size, "function")} · ${share(foundPart, whole)}` : ""}</Search>
      </div>
      <p class="legend">
        <span>
          <i class="own" />
          the program's own
        </span>
        <span>
          <i class="other" />
          other libraries
        </span>
        <span>
          <i class="folded" />
          {state.library ? "allocator and standard library" : "folded: allocator and standard library"}
        </span>
        {found && (
          <span>
            <i class="found" />
            found
          </span>
        )}
        <button type="button" class="link" onClick={() => set({ library: !state.library, zoom: [] })}>
          {state.library ? "Fold library frames" : "Show library frames"} <kbd>l</kbd>
        </button>
        <span class="quiet end">widest first · click zooms</span>
      </p>
      {whole > 0 ? <Graph tree={tree} zoomed={zoomed} found={found} weights={weights} amount={amount} /> : <p class="quiet">Nothing to draw: no allocation counts here.</p>}
    </>
  );
}

/** The groups of frames whose name, file or module has the words; null without words. */
function search(recording: Recording, words: string): Set<number> | null {
  if (words === "") return null;
  const wanted = words.toLowerCase();
  const found = new Set<number>();
  recording.groups.forEach((name, group) => {
    if (name.toLowerCase().includes(wanted)) found.add(group);
  });
  const { frames } = recording;
  const has = new Map<string, boolean>();
  for (let frame = 0; frame < frames.count; frame++) {
    const key = `${frames.file[frame]} ${frames.module[frame]}`;
    let is = has.get(key);
    if (is === undefined) {
      const texts = [recording.name(frames.file[frame]!), recording.modules[frames.module[frame]! - 1] ?? ""];
      is = texts.some((text) => text.toLowerCase().includes(wanted));
      has.set(key, is);
    }
    if (is) found.add(frames.group[frame]!);
  }
  return found;
}

interface GraphProps {
  tree: FlameTree;
  zoomed: number;
  found: Set<number> | null;
  weights: Float64Array;
  amount: (value: number) => string;
}

function Graph({ tree, zoomed, found, weights, amount }: GraphProps) {
  const app = useApp();
  const { recording, state, set } = app;
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const [chosen, setChosen] = useState(zoomed);
  const path = useMemo(() => pathTo(tree, zoomed), [tree, zoomed]);
  const cells = useMemo(() => (width > 0 ? layOut(tree, path, width) : []), [tree, path, width, weights]);
  const rows = cells.reduce((most, cell) => Math.max(most, cell.row + 1), 1);
  const label = (node: number) => labelOf(app, tree, node);
  const at = cells.find((cell) => cell.node === chosen) ?? cells.find((cell) => cell.node === zoomed);

  useEffect(() => setChosen(zoomed), [tree, zoomed]);
  useLayoutEffect(() => {
    const target = canvas.current!;
    setWidth(target.clientWidth);
    const observer = new ResizeObserver(() => setWidth(target.clientWidth));
    observer.observe(target);
    return () => observer.disconnect();
  }, [app.theme]);
  useLayoutEffect(() => {
    if (width > 0) draw(canvas.current!, app, tree, cells, rows, width, found, at?.node ?? -1);
  }, [cells, found, at?.node, app.theme]);

  const zoom = (node: number) => {
    const to = node === zoomed && node !== 0 ? tree.parent(node) : node;
    set({ zoom: pathTo(tree, to).slice(1).map((it) => tree.key(it)) });
  };
  const under = (event: MouseEvent) => {
    const row = Math.floor(event.offsetY / ROW);
    return cells.find((cell) => cell.row === row && event.offsetX >= cell.x && event.offsetX < cell.x + cell.width);
  };
  const onKey = (event: KeyboardEvent) => {
    if (!at || event.altKey || event.ctrlKey || event.metaKey) return;
    const next = neighbour(cells, at, event.key);
    if (next) setChosen(next.node);
    else if (event.key === "Enter" || event.key === " ") zoom(at.node);
    else if (event.key === "c") copyStack(app, tree, at.node);
    else return;
    event.preventDefault();
  };
  const value = at ? tree.value(at.node) : 0;
  const children = tree.children(zoomed).slice(0, 50);
  return (
    <>
      <canvas
        ref={canvas}
        class="flame"
        tabIndex={0}
        role="application"
        aria-label="Flame graph: arrows choose a cell, Enter zooms, Escape goes back"
        aria-describedby="chosen"
        data-cells={cells.length}
        style={{ height: `${rows * ROW}px` }}
        onMouseMove={(event) => setChosen(under(event)?.node ?? zoomed)}
        onMouseLeave={() => setChosen(zoomed)}
        onClick={(event) => {
          const cell = under(event);
          if (cell) zoom(cell.node);
        }}
        onKeyDown={onKey}
      />
      <p class="strip" id="chosen" aria-live="polite">
        {at && (
          <>
            <code title={label(at.node)}>{label(at.node)}</code> <span class="place">{tree.frame(at.node) >= 0 ? recording.placeOf(tree.frame(at.node), true) : ""}</span>
            <span class="end">
              <b>{amount(value)}</b> {share(value, tree.value(0))}
              {zoomed !== 0 && ` · ${share(value, tree.value(zoomed))} of the zoomed`}
            </span>
          </>
        )}
      </p>
      <p class="tools">
        {zoomed !== 0 && (
          <button type="button" onClick={() => set({ zoom: [] })}>
            Back to the whole <kbd>Esc</kbd>
          </button>
        )}
        <button type="button" onClick={() => copyStack(app, tree, at?.node ?? zoomed)}>
          Copy the stack <kbd>c</kbd>
        </button>
      </p>
      <table class="hidden">
        <caption>What {label(zoomed)} {state.from === "main" ? "calls" : "is called by"}</caption>
        <tbody>
          {children.map((child) => (
            <tr key={child}>
              <td>{label(child)}</td>
              <td>{amount(tree.value(child))}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}

function labelOf({ recording, state }: App, tree: FlameTree, node: number): string {
  if (node === 0) {
    const process = state.process === null ? recording.processes[0] : recording.processes[state.process];
    const many = state.process === null && recording.processes.length > 1;
    const name = many ? `${count(recording.processes.length)} processes` : (process?.executable.split("/").pop() ?? "");
    return name === "" ? "all" : name;
  }
  if (tree.key(node) < 0) {
    const [least, most] = tree.folded(node);
    return least === most ? `⋯ ${plural(most, "library frame")}` : `⋯ ${least}–${most} library frames`;
  }
  return recording.groupName(tree.key(node));
}

/** Copies the functions from a node outwards, as text. */
function copyStack(app: App, tree: FlameTree, node: number): void {
  const nodes = pathTo(tree, node).slice(1);
  if (app.state.from === "main") nodes.reverse();
  const lines = nodes.map((it) => {
    const frame = tree.frame(it);
    return `${labelOf(app, tree, it)}${frame >= 0 && tree.key(it) >= 0 ? `  ${app.recording.placeOf(frame, true)}` : ""}`;
  });
  void navigator.clipboard?.writeText(lines.join("\n")).then(
    () => app.say("Copied the stack"),
    () => app.say("The browser did not allow copying"),
  );
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

function draw(canvas: HTMLCanvasElement, app: App, tree: FlameTree, cells: Cell[], rows: number, width: number, found: Set<number> | null, chosen: number): void {
  const { recording } = app;
  const scale = devicePixelRatio;
  canvas.width = width * scale;
  canvas.height = rows * ROW * scale;
  const context = canvas.getContext("2d")!;
  context.scale(scale, scale);
  context.textBaseline = "middle";
  const names = ["own1", "own2", "other1", "other2", "glue", "sub", "line2", "found", "found-ink", "found-line", "text1", "text2", "bg", "accent", "pale-ink"];
  const ink = Object.fromEntries(names.map((it) => [it, color(it)])) as Record<string, string>;
  const hatch = hatching(context, ink.glue!, ink.line2!);
  const chosenKey = chosen >= 0 ? tree.key(chosen) : -1;
  for (const { node, row, x, width: wide } of cells) {
    const key = tree.key(node);
    const origin = tree.frame(node) < 0 ? -1 : recording.frames.origin[tree.frame(node)]!;
    const isFound = found !== null && key >= 0 && found.has(key);
    const fill = node === 0 ? ink.glue! : key < 0 || origin === ORIGIN.glue ? hatch : isOwn(origin) ? ink[`own${(row % 2) + 1}`]! : ink[`other${(row % 2) + 1}`]!;
    context.globalAlpha = found !== null && !isFound ? 0.55 : 1;
    context.fillStyle = isFound ? ink.found! : fill;
    const inner = Math.max(wide - 1, 0.5);
    context.fillRect(x, row * ROW, inner, ROW - 2);
    context.globalAlpha = 1;
    if (isFound && wide > 2) {
      context.strokeStyle = ink["found-line"]!;
      context.strokeRect(x + 0.5, row * ROW + 0.5, inner - 1, ROW - 3);
    }
    if (node === chosen || (key >= 0 && key === chosenKey && wide > 2)) {
      context.strokeStyle = ink.accent!;
      context.lineWidth = node === chosen ? 2 : 1;
      context.strokeRect(x + 1, row * ROW + 1, Math.max(inner - 2, 1), ROW - 4);
      context.lineWidth = 1;
    }
    if (wide < 28) continue;
    context.fillStyle = isFound ? ink["found-ink"]! : ink.text1!;
    context.font = `${isFound ? "600 " : ""}12px ui-monospace, monospace`;
    const text = fitting(labelOf(app, tree, node), wide - 10);
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
