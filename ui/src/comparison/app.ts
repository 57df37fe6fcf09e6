// What every view of a comparison needs.

import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { Compared, Comparison } from "../data/comparison";
import { bytes, count } from "../format";
import type { State } from "./state";

export interface App {
  comparison: Comparison;
  /** The comparison by the chosen metric. */
  compared: Compared;
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
  if (!app) throw new Error("no comparison");
  return app;
}

/** A figure of the metric in words. */
export function amount(compared: Compared, value: number): string {
  return compared.is_bytes ? bytes(value) : count(value);
}

/** A difference with its sign. */
export function signed(compared: Compared, difference: number): string {
  const sign = difference > 0 ? "+" : difference < 0 ? "−" : "";
  return `${sign}${amount(compared, Math.abs(difference))}`;
}
