// The differential flame graph: as wide as the larger of both sides, so that what vanished is
// seen; more and less are a colour and a sign.

import { useMemo } from "preact/hooks";
import { type Weights, weightsOf } from "../data/comparison";
import { type FlameTree, foundValue, nodeAt, treeOf } from "../data/flame";
import { plural, share } from "../format";
import { Choice } from "../parts/choice";
import { Graph, type Look, foldedLabel } from "../parts/flame-graph";
import { SearchField } from "../parts/search";
import { type App, amount, signed, useApp } from "./app";
import { capital, leftOut } from "./changes";

/** Up to this part of the larger side, both are shown as the same. */
const SAME = 0.02;

export type Change = "new" | "gone" | "more" | "less" | "same";

/** How a cell changed, from its figures before and after. */
export function changeOf(before: number, after: number): Change {
  if (Math.abs(after - before) <= SAME * Math.max(before, after)) return "same";
  if (before === 0) return "new";
  if (after === 0) return "gone";
  return after > before ? "more" : "less";
}

const MARKS: Record<Change, string> = { new: "+ ", gone: "− ", more: "▲ ", less: "▼ ", same: "" };

export function DifferentialFlame() {
  const app = useApp();
  const { comparison, compared, state, set, theme, say } = app;
  const weights = useMemo(() => weightsOf(comparison, compared), [comparison, compared]);
  const width = weights[state.width];
  const tree = treeOf(comparison, state.from, state.library);
  useMemo(() => tree.setWeights(width), [tree, width]);
  const zoomed = useMemo(() => nodeAt(tree, state.zoom), [tree, width, state.zoom.join()]);
  const found = useMemo(() => comparison.search(state.search.trim()), [comparison, state.search]);
  const foundPart = useMemo(() => (found ? foundValue(comparison, found, width) : 0), [found, width]);
  const whole = tree.value(0);
  return (
    <>
      <h1 class="hidden">Flame graph of the difference</h1>
      <div class="tools">
        {comparison.all.length > 1 && (
          <select aria-label="Metric" value={compared.metric} onChange={(event) => set({ metric: event.currentTarget.value === comparison.all[0]!.metric ? "" : event.currentTarget.value })}>
            {comparison.all.map((it) => (
              <option key={it.metric} value={it.metric}>
                {capital(it.words)}
              </option>
            ))}
          </select>
        )}
        <Choice
          label="Width"
          values={[
            ["larger", "Larger of both"],
            ["before", "Before"],
            ["after", "After"],
          ]}
          value={state.width}
          onChange={(it) => set({ width: it })}
        />
        <Choice
          label="Direction"
          values={[
            ["main", "From main"],
            ["allocation", "From the allocation"],
          ]}
          value={state.from}
          onChange={(from) => set({ from, zoom: [] })}
        />
        <SearchField value={state.search} onInput={(search) => set({ search })}>
          {found ? `${plural(found.size, "function")} · ${share(foundPart, whole)}` : ""}
        </SearchField>
      </div>
      <p class="legend">
        <span>
          <i class="cell rise" />▲ more, + new
        </span>
        <span>
          <i class="cell fall" />▼ less
        </span>
        <span>
          <i class="cell gone" />− gone
        </span>
        <span>
          <i class="cell" />
          the same (within 2 %)
        </span>
        <button type="button" class="link" onClick={() => set({ library: !state.library, zoom: [] })}>
          {state.library ? "Fold library frames" : "Show library frames"} <kbd>l</kbd>
        </button>
        <span class="quiet end">widest first · click zooms</span>
      </p>
      {whole > 0 ? (
        <Graph tree={tree} zoomed={zoomed} found={found} weights={width} look={lookOf(app, tree, weights)} from={state.from} theme={theme} say={say} onZoom={(zoom) => set({ zoom })} />
      ) : (
        <p class="quiet">Nothing to draw: {compared.words} are 0 {state.width === "larger" ? "on both sides" : state.width}.</p>
      )}
      {leftOut(app).map((it) => (
        <p class="quiet" key={it}>
          {it}
        </p>
      ))}
    </>
  );
}

function lookOf({ comparison, compared }: App, tree: FlameTree, weights: Weights): Look {
  const sums = (node: number) => [tree.sum(node, weights.before), tree.sum(node, weights.after)] as const;
  return {
    label: (node) => (node === 0 ? `${compared.words}, both sides` : tree.key(node) < 0 ? foldedLabel(tree, node) : comparison.groupName(tree.key(node))),
    mark: (node) => MARKS[changeOf(...sums(node))],
    place: (node) => (tree.frame(node) >= 0 && tree.key(node) >= 0 ? comparison.placeOf(tree.frame(node), true) : ""),
    amount: (node) => {
      const [before, after] = sums(node);
      return before === after ? `${amount(compared, before)}, no change` : `${amount(compared, before)} → ${amount(compared, after)} (${signed(compared, after - before)})`;
    },
    fill: (node, _row, ink, hatch) => {
      switch (changeOf(...sums(node))) {
        case "new":
        case "more":
          return ink("more-cell");
        case "less":
          return ink("less-cell");
        case "gone":
          return hatch("gone-cell", "gone-line");
        case "same":
          return ink("glue");
      }
    },
  };
}
