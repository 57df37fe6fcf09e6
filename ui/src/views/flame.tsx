// The flame graph of a recording, from main or from what allocates: what it is as wide as, and
// whose code a cell is.

import { useMemo } from "preact/hooks";
import { type App, useApp } from "../app";
import { type FlameTree, foundValue, nodeAt, treeOf } from "../data/flame";
import { knownWeights } from "../data/known";
import { ORIGIN } from "../data/recording";
import { leftWord } from "../data/gaps";
import { MODE_NAMES } from "../data/ranges";
import { bytes, count, plural, programName, share } from "../format";
import { Choice } from "../parts/choice";
import { Graph, type Look, foldedLabel } from "../parts/flame-graph";
import { PartOnly, leftOut } from "../parts/notes";
import { Search } from "../parts/search";
import type { Weight } from "../state";
import { isOwn } from "./overview";

/** The weights that this recording knows, with their names. */
function weightsOf({ recording, state, model }: App): [Weight, string][] {
  if (recording.meta.kind === "sampled") {
    return [["leaked", "Live"], ["bytes", "Bytes"], ["allocations", "Allocations"]];
  }
  const isKnown = ([weight]: [Weight, string]) => recording.meta.kind !== "stacks" || knownWeights(recording).includes(weight);
  const all: [Weight, string][] = [
    ["allocations", "Allocations"],
    ["bytes", "Bytes"],
    ["peak", "At the peak"],
    ["range", state.range ? MODE_NAMES[state.mode] : "In the range"],
    ["leaked", leftWord(recording, model.all(state))],
    ["temporary", "Temporary"],
  ];
  return all.filter(isKnown);
}

export function Flame() {
  const app = useApp();
  const { recording, state, model, set } = app;
  const known = weightsOf(app).map(([it]) => it);
  const weight = known.includes(state.weight) ? state.weight : ((recording.meta.kind === "stacks" ? knownWeights(recording)[0] : known[0]) ?? "allocations");
  const weights = model.weights({ ...state, weight }, weight);
  const tree = treeOf(recording, state.from, state.library);
  useMemo(() => tree.setWeights(weights), [tree, weights]);
  const zoomed = useMemo(() => nodeAt(tree, state.zoom), [tree, weights, state.zoom.join()]);
  const found = useMemo(() => recording.search(state.search), [recording, state.search]);
  const foundPart = useMemo(() => (found ? foundValue(recording, found, weights) : 0), [found, weights]);
  const whole = tree.value(0);
  const about = recording.meta.kind === "sampled" ? "about " : "";
  const amount = (value: number) => about + (weight === "allocations" || weight === "temporary" ? count(value) : bytes(value));
  const look: Look = {
    label: (node) => labelOf(app, tree, node),
    place: (node) => (tree.frame(node) >= 0 ? recording.placeOf(tree.frame(node), true) : ""),
    amount: (node) => amount(tree.value(node)),
    fill: (node, row, ink, hatch) => {
      const origin = tree.frame(node) < 0 ? -1 : recording.frames.origin[tree.frame(node)]!;
      if (node === 0) return ink("glue");
      if (tree.key(node) < 0 || origin === ORIGIN.glue) return hatch("glue", "line2");
      return ink(`${isOwn(origin) ? "own" : "other"}${(row % 2) + 1}`);
    },
  };
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
      <PartOnly />
      {whole > 0 ? <Graph tree={tree} zoomed={zoomed} found={found} weights={weights} look={look} {...graphOf(app)} /> : <p class="quiet">{known.length === 0 ? "Nothing to draw: the file has neither allocations nor bytes." : "Nothing to draw: no allocation counts here."}</p>}
      {leftOut(app).map((it) => (
        <p class="quiet" key={it}>
          {it}
        </p>
      ))}
    </>
  );
}

function labelOf({ recording, state, model }: App, tree: FlameTree, node: number): string {
  if (node === 0) {
    const all = model.all(state);
    const name = all.length > 1 ? `${count(all.length)} processes` : (all[0] ? programName(all[0]) : "");
    return name === "" ? "all" : name;
  }
  return tree.key(node) < 0 ? foldedLabel(tree, node) : recording.groupName(tree.key(node));
}

/** What the graph has of the page. */
function graphOf({ state, set, say, theme }: App) {
  return { from: state.from, theme, say, onZoom: (zoom: number[]) => set({ zoom }) };
}
