// What every view needs: the recording, the state, and what follows from both. Results that
// several views share are computed once for each range and process.

import { createContext } from "preact";
import { useContext } from "preact/hooks";
import { type Group, groups } from "./data/groups";
import { type Process, type Recording } from "./data/recording";
import { type Missing, missing } from "./data/gaps";
import { isChosen } from "./data/programs";
import { type Mode, type Range, type RangeFigures, boundaries, chosenProcesses, ofSites, snap } from "./data/ranges";
import type { State, Weight } from "./state";

export class Model {
  private cache = new Map<string, unknown>();
  /** The last figures of ranges: brushing makes many, and they are large. */
  private ranges = new Map<string, RangeFigures>();

  constructor(readonly recording: Recording) {}

  private once<T>(what: string, key: string, make: () => T): T {
    const at = `${what} ${key}`;
    if (!this.cache.has(at)) this.cache.set(at, make());
    return this.cache.get(at) as T;
  }

  /** The processes that are looked at. */
  processes(state: State): Process[] {
    return this.once("processes", String(state.process), () => chosenProcesses(this.recording, state.process));
  }

  /** The same with those of which there are only totals. */
  all(state: State): Process[] {
    return this.once("all", String(state.process), () => this.recording.processes.filter((it) => isChosen(this.recording, state.process, it)));
  }

  /** What is missing of them. */
  missing(state: State): Missing {
    return this.once("missing", String(state.process), () => missing(this.recording, this.all(state)));
  }

  /** The one process that is looked at, if it is one. */
  process(state: State): Process | null {
    const all = this.processes(state);
    return all.length === 1 && (state.process !== null || this.recording.processes.length === 1) ? all[0]! : null;
  }

  boundaries(state: State): Float64Array {
    return this.once("boundaries", String(state.process), () => boundaries(this.recording, state.process));
  }

  /** The whole time of what is looked at. */
  whole(state: State): Range {
    const process = this.process(state);
    return process ? [process.details!.starts[0] ?? process.started, process.details!.end] : [this.recording.start, this.recording.end];
  }

  /** The range between boundaries that is looked at. */
  range(state: State): Range {
    return state.range ? snap(this.boundaries(state), state.range) : this.whole(state);
  }

  /** Whether a range is looked at, of which this recording has figures. */
  hasRange(state: State): boolean {
    return state.range !== null && this.recording.meta.kind === "recording";
  }

  figures(state: State, mode: Mode = state.mode): RangeFigures {
    const range = this.range(state);
    const key = `${state.process} ${range.join()} ${mode}`;
    let figures = this.ranges.get(key);
    if (!figures) {
      figures = ofSites(this.recording, this.processes(state), range, mode);
      if (this.ranges.size >= 6) this.ranges.delete(this.ranges.keys().next().value!);
      this.ranges.set(key, figures);
    }
    return figures;
  }

  /** The number of sites, as `report` counts them: those of several processes with the same stack
   * are one. */
  sites(state: State): number {
    return this.once("sites", String(state.process), () => {
      const { node, figures } = this.recording.sites;
      const stacks = new Set<number>();
      let together = 0;
      for (const { details } of this.processes(state)) {
        for (let site = details!.sites[0]; site < details!.sites[1]; site++) {
          if (figures.together[site] === 1) stacks.add(node[site]!);
          else together += figures.together[site]!;
        }
      }
      return stacks.size + together;
    });
  }

  groups(state: State, by: State["by"]): Group[] {
    return this.once("groups", `${state.process} ${by}`, () => groups(this.recording, this.processes(state), by));
  }

  /** By site, what a flame graph is as wide as. */
  weights(state: State, weight: Weight = state.weight): Float64Array {
    const { figures, count } = this.recording.sites;
    if (weight === "range") return this.figures(state).bytes;
    const columns = { allocations: figures.allocations, bytes: figures.bytes, peak: figures.at_peak_bytes, leaked: figures.leaked_bytes, temporary: figures.temporary };
    if (state.process === null) return columns[weight];
    return this.once("weights", `${state.process} ${weight}`, () => {
      const weights = new Float64Array(count);
      for (const { details } of this.processes(state)) {
        const [from, to] = details!.sites;
        weights.set(columns[weight].subarray(from, to), from);
      }
      return weights;
    });
  }
}

export interface App {
  model: Model;
  recording: Recording;
  state: State;
  /** Changes the state. A change of the view is a step of the browser's history. */
  set(patch: Partial<State>): void;
  /** Raised when colours change, so that canvases are drawn again. */
  theme: number;
  /** Says something to screen readers, and shows it for a moment. */
  say(text: string): void;
}

export const AppContext = createContext<App | null>(null);

export function useApp(): App {
  const app = useContext(AppContext);
  if (!app) throw new Error("no recording");
  return app;
}
