// What every view of an allocator report needs.

import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { Allocator, AllocatorReport } from "../data/allocators";
import type { State } from "./state";

export interface App {
  data: AllocatorReport;
  /** The allocator whose paths are shown; null: none was stepped. */
  chosen: Allocator | null;
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
  if (!app) throw new Error("no report");
  return app;
}

/** A figure an operation, such as instructions. */
export function figure(value: number): string {
  return signed(value.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 }));
}

export function nanoseconds(value: number): string {
  return signed(`${value.toFixed(1)}\u00a0ns`);
}

/** A part from 0 to 1 in percent. */
export function percent(part: number): string {
  return `${(part * 100).toFixed(1)}\u00a0%`;
}

/** With a minus instead of a hyphen. */
function signed(text: string): string {
  return text.replace(/^-/, "\u2212");
}
