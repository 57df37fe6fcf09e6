// Choosing a range with the pointer, on the curve and on the tracks below it.

import type { App } from "../app";
import type { Range } from "../data/ranges";

/** Pixels; a shorter movement is a click. */
const LEAST = 3;

/** Sets the range to the exact one that is nearest to what was dragged over; null clears it. */
export function choose({ state, model, set }: App, dragged: Range | null): void {
  set({ range: dragged && model.range({ ...state, range: dragged }) });
}

/** Dragging over an element chooses a range, at once and not only at its end; a click without a
 * drag clears it. `time` is what is at a pixel from the left of the element. Pointer events,
 * because a finger drags, too. */
export function brush(over: HTMLElement, time: (left: number) => number, choose: (range: Range | null) => void): void {
  let from: number | null = null;
  let frame = 0;
  const at = (event: PointerEvent) => Math.min(Math.max(event.clientX - over.getBoundingClientRect().left, 0), over.clientWidth);
  const range = (to: number): Range => [time(Math.min(from!, to)), time(Math.max(from!, to))];
  over.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    from = at(event);
    over.setPointerCapture(event.pointerId);
  });
  over.addEventListener("pointermove", (event) => {
    const to = at(event);
    if (from === null || Math.abs(to - from) < LEAST) return;
    // As often as the screen shows it.
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(() => from !== null && choose(range(to)));
  });
  over.addEventListener("pointerup", (event) => {
    if (from === null) return;
    cancelAnimationFrame(frame);
    const to = at(event);
    choose(Math.abs(to - from) < LEAST ? null : range(to));
    from = null;
  });
  over.addEventListener("pointercancel", () => {
    from = null;
  });
}
